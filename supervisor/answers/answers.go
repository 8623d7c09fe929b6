// Package answers sends what a supervisor answers to requests, beside its loop:
//
//	a := answers.New()
//	defer a.Close()
//	a.Send(request, lock.Decision{Accepted: true})
//
// It knows neither what is asked nor what is answered. An answer that is not taken is dropped.
package answers

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"berth/lock"
)

const (
	// Most is how many answers are on their way at once. Who asks in between asks again.
	Most = 4
	// timeout bounds an answer, for which a backend may have to connect.
	timeout = 5 * time.Second
)

// Answers are those that are on their way. Use New.
type Answers struct {
	ctx    context.Context
	cancel context.CancelFunc
	free   chan struct{} // has one token for each that may begin
	under  sync.WaitGroup
}

// New returns none.
func New() *Answers {
	a := &Answers{free: make(chan struct{}, Most)}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	for range Most {
		a.free <- struct{}{}
	}
	return a
}

// Send answers a request, in JSON.
func (a *Answers) Send(to lock.Request, what any) {
	answer, err := json.Marshal(what)
	if err != nil || to.Reply == nil {
		return
	}
	select {
	case <-a.free:
	default:
		return
	}
	a.under.Go(func() {
		defer func() { a.free <- struct{}{} }()
		ctx, cancel := context.WithTimeout(a.ctx, timeout)
		defer cancel()
		_ = to.Reply(ctx, answer) // who asks sees that no answer comes
	})
}

// Close ends those that are on their way.
func (a *Answers) Close() {
	a.cancel()
	a.under.Wait()
}
