package rabbit_test

import (
	"context"
	"testing"
	"time"

	"berth/lock"
)

// The command of a holder whose broker does not answer is dead long before it
// answers again. The same berth is not to wait for its own release then.
func TestReleaseThatCouldNotBeRecordedIsRecordedLater(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	p := newTap(t)
	cfg := at(p.url(), shared.URL())
	cfg.Heartbeat = long
	l := backend(t, cfg).Lock(id)
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(within(t)))
	h, err := l.Acquire(within(t))
	must(t, err)
	must(t, h.Ready(within(t)))
	up := nodeDown(t, id.Name+"-1-T")
	p.close() // and both connections with it
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	if err := h.Release(ctx); err == nil {
		t.Error("the release is called recorded")
	}
	up()
	succeeds(t, "connecting", func() error { return l.Connect(within(t)) })
	succeeds(t, "the slot", func() (err error) {
		h, err = l.Acquire(within(t))
		return err
	})
	must(t, h.Ready(within(t)))
}
