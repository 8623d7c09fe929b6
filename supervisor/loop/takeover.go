package loop

import (
	"context"
	"time"
)

// takeover is the question to the holder of a slot whether it steps down, while this berth waits for that slot. Its
// zero value asks nobody.
type takeover struct {
	slot   int
	cancel context.CancelFunc // nil: nobody is asked
	done   chan struct{}      // closed when asking has ended
}

// askToStepDown asks the holder of the slot that this berth is next for, or of any where the backend does not say who
// is next.
func (l *loop) askToStepDown(slot int) {
	if l.cfg.Takeover == nil || l.held != nil || l.takeover.cancel != nil && l.takeover.slot == slot {
		return
	}
	l.takeover.end()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	l.takeover = takeover{slot: slot, cancel: cancel, done: done}
	go func() {
		defer close(done)
		_ = l.cfg.Takeover(ctx, slot)
	}()
}

// end ends it, for a slot that is won, or for which this berth is not next any more. It does not wait: what looks
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
