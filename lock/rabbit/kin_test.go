package rabbit_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock"
	"berth/lock/rabbit"
	"berth/test/relay"
)

// eachProtocol has a lock of each kind that is reclaimed in a way of its own, on these virtual hosts, until the test ends.
func eachProtocol(t *testing.T, hosts []string, test func(t *testing.T, b func(rabbit.Config) *rabbit.Backend, id lock.ID)) {
	for name, kind := range map[string]lock.Kind{
		"full": lock.Mutex, "plain": lock.Mutex, "tokens": lock.TokenSemaphore, "quorum": lock.TokenSemaphore,
	} {
		t.Run(name, func(t *testing.T) {
			id := fresh(kind)
			make := func(cfg rabbit.Config) *rabbit.Backend {
				cfg.Heartbeat = long
				switch name {
				case "plain":
					cfg.Protocol = rabbit.ProtocolPlain
					return prompt(t, cfg)
				case "quorum":
					cfg.QueueType = rabbit.QueuesQuorum
				}
				return backend(t, cfg)
			}
			for _, host := range hosts {
				b := make(at(shared.URLFor("guest", "guest", host)))
				if kind.Administered() {
					resizeAt(t, b, id, 1)
				}
				must(t, startedAt(t, b, id).Release(within(t))) // there are ledgers
			}
			test(t, make, id)
		})
	}
}

func resizeAt(t *testing.T, b *rabbit.Backend, id lock.ID, slots int) {
	t.Helper()
	a := b.Administrator(id)
	defer a.Close()
	_, _, err := a.Resize(within(t), 0, func(int) (int, error) { return slots, nil })
	must(t, err)
}

// Two virtual hosts have nothing in common, as two brokers have nothing.
func TestSlotIsNotReclaimedFromAnotherBroker(t *testing.T) {
	t.Parallel()
	const other = "no kin"
	must(t, shared.AddVhost(within(t), other))
	must(t, shared.SetPermissions(within(t), "guest", other, ".*", ".*", ".*"))
	eachProtocol(t, []string{"/", other}, func(t *testing.T, make func(rabbit.Config) *rabbit.Backend, id lock.ID) {
		first := newTap(t)
		cfg, said := journal()
		cfg.URLs = []string{first.url(), shared.URLFor("guest", "guest", other)}
		h := startedAt(t, make(cfg), id)
		eventually(t, "the user is told", func() bool { return said("a broker does not know the slot") > 0 })
		first.close()
		eventually(t, "the holder is in doubt", func() bool { return errors.Is(h.Cause(), lock.ErrInDoubt) })
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := h.Reclaim(ctx); !errors.Is(err, lock.ErrInDoubt) || errors.Is(err, lock.ErrLost) {
			t.Errorf("reclaiming: %v", err)
		}
		if n := said("slot reclaimed"); n > 0 {
			t.Errorf("the slot was reclaimed from a broker that never gave it to anybody")
		}
	})
}

// Several names may lead to one broker, or to nodes of one cluster.
func TestSlotIsReclaimedOverAnotherAddressOfItsBroker(t *testing.T) {
	t.Parallel()
	eachProtocol(t, []string{"/"}, func(t *testing.T, make func(rabbit.Config) *rabbit.Backend, id lock.ID) {
		first, second := newTap(t), newTap(t)
		cfg, said := journal()
		cfg.Log.SetLevel(hclog.Debug)
		cfg.URLs = []string{first.url(), second.url()}
		h := startedAt(t, make(cfg), id)
		awaitCompared(t, said)
		first.close()
		eventually(t, "the holder is in doubt", func() bool { return errors.Is(h.Cause(), lock.ErrInDoubt) })
		must(t, h.Reclaim(within(t)))
		must(t, h.Verify(within(t)))
	})
}

// strayed is a network in which a broker becomes another one once it has strayed: another virtual host, of a name that is
// as long.
func strayed(t *testing.T, to string) (strays *atomic.Bool, broker string) {
	t.Helper()
	server, err := url.Parse(shared.URL())
	must(t, err)
	strays = &atomic.Bool{}
	open := func(host string) []byte { return append([]byte{0, 10, 0, 40, byte(len(host))}, host...) }
	r, err := relay.New(relay.Config{To: server.Host, Pass: func(_ context.Context, server, client net.Conn, _ bool) {
		buffer := make([]byte, 64<<10)
		for {
			n, err := client.Read(buffer)
			said := buffer[:n]
			if strays.Load() {
				said = bytes.ReplaceAll(said, open("/"), open(to))
			}
			if err == nil {
				_, err = server.Write(said)
			}
			if err != nil {
				return
			}
		}
	}})
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	return strays, r.URL(server)
}

// A node that was taken out of its cluster knows nothing of what is held since.
func TestBrokerThatHasLeftTheClusterIsNotReclaimedFrom(t *testing.T) {
	t.Parallel()
	const other = "x"
	must(t, shared.AddVhost(within(t), other))
	must(t, shared.SetPermissions(within(t), "guest", other, ".*", ".*", ".*"))
	first := newTap(t)
	strays, second := strayed(t, other)
	cfg, said := journal()
	cfg.Log.SetLevel(hclog.Debug)
	cfg.URLs, cfg.Heartbeat = []string{first.url(), second}, long
	l := backend(t, cfg).Lock(fresh(lock.Mutex))
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(within(t)))
	startIn := func() lock.Held {
		t.Helper()
		h, err := l.Acquire(within(t))
		must(t, err)
		must(t, h.Ready(within(t)))
		return h
	}
	h := startIn()
	awaitCompared(t, said)
	must(t, h.Release(within(t)))
	strays.Store(true)
	h = startIn()
	eventually(t, "the user is told", func() bool { return said("a broker does not know the slot") > 0 })
	first.close()
	eventually(t, "the holder is in doubt", func() bool { return errors.Is(h.Cause(), lock.ErrInDoubt) })
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := h.Reclaim(ctx); !errors.Is(err, lock.ErrInDoubt) || errors.Is(err, lock.ErrLost) {
		t.Errorf("reclaiming: %v", err)
	}
}

// It would run beside the slot's holder at the first one by now.
func TestBrokerOfNoClusterIsNotUsedWhereNoOtherIsThere(t *testing.T) {
	t.Parallel()
	const other = "y"
	must(t, shared.AddVhost(within(t), other))
	must(t, shared.SetPermissions(within(t), "guest", other, ".*", ".*", ".*"))
	first := newTap(t)
	cfg, said := journal()
	cfg.URLs, cfg.Heartbeat = []string{first.url(), shared.URLFor("guest", "guest", other)}, long
	l := backend(t, cfg).Lock(fresh(lock.Mutex))
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(within(t)))
	h, err := l.Acquire(within(t))
	must(t, err)
	must(t, h.Ready(within(t)))
	eventually(t, "the user is told", func() bool { return said("a broker does not know the slot") > 0 })
	must(t, h.Release(within(t)))
	first.close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if h, err := l.Acquire(ctx); err == nil {
		t.Errorf("slot %d was won from a broker that knows nothing of the others", h.Slot())
	}
	if err := l.Connect(within(t)); !errors.Is(err, lock.ErrUnreachable) {
		t.Errorf("connecting: %v", err)
	}
}

// A host that is dead answers nothing for as long as one may dial.
func TestSilentBrokerDoesNotKeepTheNextOneFromBeingCompared(t *testing.T) {
	t.Parallel()
	network, silent := newLate(t)
	network.hold(false)
	cfg, said := journal()
	cfg.Log.SetLevel(hclog.Debug)
	cfg.URLs, cfg.Heartbeat = []string{shared.URL(), silent, newTap(t).url()}, long
	h := startedAt(t, backend(t, cfg), fresh(lock.Mutex))
	awaitCompared(t, said)
	if n := said("not known whether a broker is of the same cluster"); n > 0 {
		t.Error("the silent one was waited for")
	}
	must(t, h.Release(within(t)))
}

// startedAt returns a holder whose command has started.
func startedAt(t *testing.T, b *rabbit.Backend, id lock.ID) lock.Held {
	t.Helper()
	l := b.Lock(id)
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(within(t)))
	h, err := l.Acquire(within(t))
	must(t, err)
	must(t, h.Ready(within(t)))
	return h
}

// awaitCompared waits until a holder knows that another address is of its cluster. Where a busy broker does not answer
// within a second, it asks again after 30.
func awaitCompared(t *testing.T, said func(string) int) {
	t.Helper()
	for ctx := withinMinute(t); said("is of the same cluster") == 0; time.Sleep(5 * time.Millisecond) {
		must(t, ctx.Err())
	}
}
