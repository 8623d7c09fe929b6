package rabbit_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit"
	"berth/test/relay"
)

// failing is a broker that ends the connections of a client because of an error of its own, 506 as of RabbitMQ 4.3 in which
// a queue that was published to is just going: it gives back what they had, and says so then.
type failing struct {
	on     string       // what the client is about to say then
	left   atomic.Int32 // how often it still does
	failed sync.Map     // the clients' ends of those connections
}

// newFailing returns a broker that does so the first times that a client is about to say something, and that client.
func newFailing(t *testing.T, on string, times int32) (*failing, rabbit.Config) {
	t.Helper()
	server, err := url.Parse(shared.URL())
	must(t, err)
	f := &failing{on: on}
	f.left.Store(times)
	r, err := relay.New(relay.Config{To: server.Host, Pass: f.pass})
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	cfg := at(r.URL(server))
	cfg.Heartbeat, cfg.Contention.Once = long, true
	return f, cfg
}

// pass closes a connection in the client's place, and makes an error of the broker of its answer.
func (f *failing) pass(_ context.Context, to, from net.Conn, toServer bool) {
	const (
		ends   = "\x01\x00\x00\x00\x00\x00\x0b\x00\x0a\x00\x32\x00\xc8\x00\x00\x00\x00\x00\xce"
		ended  = "\x01\x00\x00\x00\x00\x00\x04\x00\x0a\x00\x33\xce"
		failed = "\x01\x00\x00\x00\x00\x00\x0b\x00\x0a\x00\x32\x01\xfa\x00\x00\x00\x00\x00\xce"
	)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		data := buffer[:n]
		if toServer && bytes.Contains(data, []byte(f.on)) && f.left.Add(-1) >= 0 {
			f.failed.Store(from, nil)
			data = []byte(ends)
		}
		if _, fails := f.failed.Load(to); fails {
			data = bytes.Replace(data, []byte(ended), []byte(failed), 1)
		}
		if _, err := to.Write(data); err != nil {
			return
		}
	}
}

// lastWords are what a contender says before the end of an attempt: it has asked for nothing, or is the reader of a ledger,
// or has drawn a token, too.
var lastWords = map[string]string{"probing": publishes, "recording": `"record":"held"`}

func usedLocks(t *testing.T) map[string]lock.ID {
	t.Helper()
	semaphore := fresh(lock.Semaphore)
	resize(t, shared, semaphore, 1)
	t.Cleanup(func() { resize(t, shared, semaphore, 0) })
	ids := map[string]lock.ID{
		"mutex": fresh(lock.Mutex), "semaphore": semaphore, "tokens": tokens(t, 1), "quorum": replicated(t, 1),
	}
	for _, id := range ids {
		_, h := claimed(t, id, long)
		must(t, h.Ready(within(t)))
		must(t, h.Release(within(t)))
	}
	return ids
}

func TestAttemptWhoseConnectionTheBrokerEndsIsMadeOnceMore(t *testing.T) {
	t.Parallel()
	for when, on := range lastWords {
		for what, id := range usedLocks(t) {
			t.Run(what+", "+when, func(t *testing.T) {
				t.Parallel()
				f, cfg := newFailing(t, on, 1)
				h := startedAs(t, cfg, id)
				if f.left.Load() > 0 {
					t.Error("it has lost no connection")
				}
				must(t, h.Release(within(t)))
			})
		}
	}
}

func TestAttemptWhoseConnectionTheBrokerEndsFindsTheLockHeld(t *testing.T) {
	t.Parallel()
	for what, id := range usedLocks(t) {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			_, h := claimed(t, id, long)
			must(t, h.Ready(within(t)))
			_, cfg := newFailing(t, "\x00\x32\x00\x0a", 1) // it looks
			l := backend(t, cfg).Lock(id)
			t.Cleanup(func() { l.Close() })
			must(t, l.Connect(within(t)))
			if _, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
				t.Error(err)
			}
			must(t, h.Release(within(t)))
		})
	}
}

// However far they came: nobody has the lock, and it was not lost.
func TestAttemptIsMadeTwiceAtMost(t *testing.T) {
	t.Parallel()
	for when, words := range map[string]string{
		"looking": "\x00\x32\x00\x0a", "recording": `"record":"held"`, "proving": "\x00\x3c\x00\x78",
	} {
		for what, id := range usedLocks(t) {
			on := words
			if when == "proving" && what == "quorum" {
				on = `"copy":true`
			}
			t.Run(what+", "+when, func(t *testing.T) {
				t.Parallel()
				f, cfg := newFailing(t, on, 3)
				l := backend(t, cfg).Lock(id)
				t.Cleanup(func() { l.Close() })
				must(t, l.Connect(within(t)))
				if _, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrUnreachable) || errors.Is(err, lock.ErrLost) {
					t.Error(err)
				}
				if left := f.left.Load(); left != 1 {
					t.Errorf("%d attempts were made", 3-left)
				}
			})
		}
	}
}

// A ledger that says nothing gets a record only then.
func TestConnectionThatEndsAfterTheDelay(t *testing.T) {
	t.Parallel()
	all := usedLocks(t)
	for _, what := range []string{"mutex", "semaphore"} {
		id := all[what]
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			onChannel(t, func(ch *amqp.Channel) error {
				_, err := ch.QueuePurge(id.Name+"-1-T", false)
				return err
			})
			f, cfg := newFailing(t, `"record":"held"`, 0)
			cfg.Heartbeat = time.Second
			l := backend(t, cfg).Lock(id)
			t.Cleanup(func() { l.Close() })
			rabbit.SetLongest(l, time.Second)
			must(t, l.Connect(within(t)))
			h, err := l.Acquire(within(t))
			must(t, err)
			f.left.Store(1)
			if err := h.Ready(within(t)); !errors.Is(err, lock.ErrDisconnected) {
				t.Error(err)
			}
		})
	}
}
