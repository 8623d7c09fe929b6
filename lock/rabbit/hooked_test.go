package rabbit_test

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth/lock"
	"berth/lock/rabbit"
	"berth/supervisor/calls"
	"berth/test/relay"
)

// The beginnings of two methods' frames on the wire (AMQP 0-9-1, 2.3.5.1 and 1.8).
const (
	publishes = "\x00\x3c\x00\x28\x00\x00\x00" // to the default exchange
	nacks     = "\x00\x3c\x00\x78"
)

// newHooked returns the URL of the broker behind a relay that hands what goes to it to a function first. Nothing goes
// to it any more over a connection for which that has returned false.
func newHooked(t *testing.T, sent func(data []byte) bool) string {
	t.Helper()
	server, err := url.Parse(shared.URL())
	must(t, err)
	r, err := relay.New(relay.Config{To: server.Host, Pass: func(_ context.Context, to, from net.Conn, toServer bool) {
		buffer, silent := make([]byte, 64<<10), false
		for {
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			if silent = silent || toServer && !sent(buffer[:n]); silent {
				continue
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
	}})
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	return r.URL(server)
}

// A successor makes its baton, and a call for another slot comes to it in its place.
func TestCallThatComesInThePlaceOfABatonIsAnswered(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 1)
	holding(t, id, long)
	var once sync.Once
	cfg := at(newHooked(t, func(data []byte) bool {
		if bytes.Contains(data, []byte(publishes+string(rune(len(id.Name)+2))+id.Name+"-W")) {
			once.Do(func() { resize(t, shared, id, 2) })
		}
		return true
	}))
	cfg.Heartbeat = long // a look at other slots comes after a minute
	l := backend(t, cfg).Lock(id)
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(within(t)))
	if got := wonBy(t, untilHeld(t, l)).Slot(); got != 2 {
		t.Errorf("slot %d", got)
	}
}

// The connection falls silent in the midst of a proof, which has the reader's place to itself.
func TestReleaseGoesAnotherWayFromTheMidstOfAProof(t *testing.T) {
	t.Parallel()
	succeeds(t, "a release in time", func() error { // for which a busy machine may be too slow once
		id := fresh(lock.Mutex)
		_, first := holding(t, id, long) // one that makes the ledger has B from the start
		must(t, first.Release(within(t)))
		var silent atomic.Bool
		cfg := at(newHooked(t, func(data []byte) bool { return !silent.Load() || !bytes.Contains(data, []byte(nacks)) }))
		cfg.Heartbeat = long
		l := backend(t, cfg).Lock(id)
		t.Cleanup(func() { l.Close() })
		must(t, l.Connect(within(t)))
		h, err := l.Acquire(within(t))
		must(t, err)
		rabbit.TakeBAfter(h, time.Hour) // the command is young
		must(t, h.Ready(within(t)))
		won := untilHeld(t, connected(t, shared, id))
		silent.Store(true)
		asking, cancel := shortly()
		defer cancel()
		if err := h.Verify(asking); err == nil {
			t.Fatal("a slot is proved over a silent connection")
		}
		ctx, cancel := context.WithTimeout(within(t), calls.ReleaseTimeout)
		defer cancel()
		if err := h.Release(ctx); err != nil {
			return err
		}
		wonBy(t, won) // long before the lease has ended
		return nil
	})
}
