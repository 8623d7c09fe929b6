package rabbit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock"
	"berth/lock/rabbit"
)

// eachWire has a lock of each kind that is reclaimed in a way of its own, on these virtual hosts, until the test ends.
func eachWire(t *testing.T, hosts []string, test func(t *testing.T, b func(rabbit.Config) *rabbit.Backend, id lock.ID)) {
	for name, kind := range map[string]lock.Kind{
		"full": lock.Mutex, "plain": lock.Mutex, "tokens": lock.TokenSemaphore, "quorum": lock.TokenSemaphore,
	} {
		t.Run(name, func(t *testing.T) {
			id := fresh(kind)
			make := func(cfg rabbit.Config) *rabbit.Backend {
				cfg.Heartbeat = long
				switch name {
				case "plain":
					cfg.Wire = rabbit.WirePlain
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
	eachWire(t, []string{"/", other}, func(t *testing.T, make func(rabbit.Config) *rabbit.Backend, id lock.ID) {
		first := newTap(t)
		cfg, said := journal()
		cfg.URLs = []string{first.url(), shared.URLFor("guest", "guest", other)}
		h := startedAt(t, make(cfg), id)
		eventually(t, "the user is told", func() bool { return said("a broker knows nothing of the slot") > 0 })
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
	eachWire(t, []string{"/"}, func(t *testing.T, make func(rabbit.Config) *rabbit.Backend, id lock.ID) {
		first, second := newTap(t), newTap(t)
		cfg, said := journal()
		cfg.Log.SetLevel(hclog.Debug)
		cfg.URLs = []string{first.url(), second.url()}
		h := startedAt(t, make(cfg), id)
		eventually(t, "the brokers are compared", func() bool { return said("is of the same cluster") > 0 })
		first.close()
		eventually(t, "the holder is in doubt", func() bool { return errors.Is(h.Cause(), lock.ErrInDoubt) })
		must(t, h.Reclaim(within(t)))
		must(t, h.Verify(within(t)))
	})
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
