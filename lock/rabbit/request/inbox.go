package request

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"berth/lock"
	"berth/lock/rabbit/transport"
)

const (
	// maxWaiting is how many requests wait to be received; more are dropped.
	maxWaiting = 4
	// idle is for how long the connection for answers is kept after one: somebody who looks does so every second.
	idle = 10 * time.Second
)

// Inbox is what comes of requests to one contender. New makes it. Its methods may be called from several goroutines.
type Inbox struct {
	Idle time.Duration // for how long the connection for answers is kept after one

	admins   *Admins
	own      func(user string) bool // it is ours
	requests chan lock.Request

	// Answers go over a connection of their own: the one that holds a slot must not publish while a command may be
	// alive.
	answers *transport.Publisher
	life    context.Context // over after Close
	end     context.CancelFunc

	answering sync.WaitGroup
	busy      atomic.Bool // see Answer

	mu      sync.Mutex
	closing *time.Timer // closes the connection for answers; nil: there is none; guarded by mu
}

// New returns an inbox for what these users of the broker ask. The dialer connects for answers.
func New(admins *Admins, d *transport.Dialer) *Inbox {
	i := &Inbox{
		Idle: idle, admins: admins, own: d.Own, requests: make(chan lock.Request, maxWaiting),
		answers: transport.NewPublisher(d, "answers"),
	}
	i.life, i.end = context.WithCancel(context.Background())
	return i
}

// Requests implements lock.Lock.
func (i *Inbox) Requests() <-chan lock.Request { return i.requests }

// Handle takes a message that came to the holder of a slot. It drops what is no request, what does not come from an
// administrator, as the broker has checked it, and what is too much. It never waits.
func (i *Inbox) Handle(d transport.Delivery) { i.handle(d, lock.Verb.Known) }

// HandleQuestion is Handle for a successor, which has nothing to step down from.
func (i *Inbox) HandleQuestion(d transport.Delivery) {
	if !d.Redelivered { // it was answered when it came first
		i.handle(d, func(v lock.Verb) bool { return v == lock.AskStatus })
	}
}

func (i *Inbox) handle(d transport.Delivery, accepts func(lock.Verb) bool) {
	if !i.admins.have(d.UserId, i.own) || !answerable(d) {
		return
	}
	verb, ok := read(d)
	if !ok || !accepts(verb) {
		return
	}
	r := lock.Request{Verb: verb, From: d.UserId}
	if to, id := d.ReplyTo, d.CorrelationId; to != "" {
		r.Reply = func(ctx context.Context, answer []byte) error { return i.reply(ctx, to, id, answer) }
	}
	select {
	case i.requests <- r:
	default:
	}
}

// reply answers. That the client is gone is no error.
func (i *Inbox) reply(ctx context.Context, to, id string, answer []byte) error {
	if len(answer) > maxAnswer || !json.Valid(answer) {
		return fmt.Errorf("cannot answer a request: an answer of %d bytes is no JSON or has more than %d bytes",
			len(answer), maxAnswer)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(i.life, cancel)()
	_, err := i.answers.Publish(ctx, to, answerTo(id, answer))
	i.keep()
	return err
}

// answerTimeout bounds an answer that nobody waits for here.
const answerTimeout = 5 * time.Second

// Answer answers a message, beside everything else, if it wants an answer. While one is on its way, others are dropped.
func (i *Inbox) Answer(d transport.Delivery, answer []byte) {
	if d.ReplyTo == "" || !answerable(d) || i.life.Err() != nil || !i.busy.CompareAndSwap(false, true) {
		return
	}
	i.answering.Go(func() {
		defer i.busy.Store(false)
		ctx, cancel := context.WithTimeout(i.life, answerTimeout)
		defer cancel()
		_ = i.reply(ctx, d.ReplyTo, d.CorrelationId, answer)
	})
}

// keep keeps the connection for a while.
func (i *Inbox) keep() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closing != nil {
		i.closing.Stop()
	}
	idle := i.Idle
	if i.life.Err() != nil {
		idle = 0
	}
	i.closing = time.AfterFunc(idle, func() { i.answers.Close() })
}

// Close ends the connection for answers, and answers nothing more.
func (i *Inbox) Close() {
	i.end()
	i.answering.Wait()
	i.mu.Lock()
	closing := i.closing
	i.mu.Unlock()
	if closing != nil {
		closing.Stop()
	}
	i.answers.Close()
}
