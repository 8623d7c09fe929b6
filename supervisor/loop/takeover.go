package loop

import (
	"context"
	"sync/atomic"
	"time"
)

// takeover is the question to the holder of a slot whether it steps down, while this berth waits for that slot. Its
// zero value asks nobody.
type takeover struct {
	slot   int
	awaits *atomic.Pointer[string] // what asking waits for
	cancel context.CancelFunc      // nil: nobody is asked
	done   chan struct{}           // closed when asking has ended
}

// askToStepDown asks the holder of the slot whose successor this berth is, or of any where the backend does not say
// which that is.
func (l *loop) askToStepDown(slot int) {
	if l.cfg.Takeover == nil || l.held != nil || l.facts.Unfit || l.takeover.cancel != nil && l.takeover.slot == slot {
		return
	}
	l.takeover.end()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	awaits := &atomic.Pointer[string]{}
	l.takeover = takeover{slot: slot, awaits: awaits, cancel: cancel, done: done}
	go func() {
		defer close(done)
		_ = l.cfg.Takeover(ctx, slot, func(what string) { awaits.Store(&what) })
	}()
}

// noteLate notes what a takeover waits for that has had no time left.
func (l *loop) noteLate() {
	switch {
	case l.cfg.Takeover == nil:
	case l.takeover.cancel == nil:
		l.facts.Takeover = "its turn: it is not the successor, so it has not asked the holder to step down"
	default:
		if what := l.takeover.awaits.Load(); what != nil {
			l.facts.Takeover = *what
		}
	}
}

// end ends it, for a slot that is won, or for which this berth is no successor any more. It does not wait: what looks
// whether the command could work may hang, on a dead file system for example.
func (t *takeover) end() {
	if t.cancel != nil {
		t.cancel()
		t.cancel = nil
	}
}

// close is end, and waits for as long as patience.
func (t *takeover) close(patience time.Duration) {
	if t.end(); t.done != nil {
		select {
		case <-t.done:
		case <-time.After(patience):
		}
	}
}
