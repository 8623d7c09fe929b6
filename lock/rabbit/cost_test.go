package rabbit_test

import (
	"errors"
	"testing"
	"time"

	"berth/lock"
	"berth/lock/rabbit"
)

// What docs/performance.md says that each step asks of the broker: methods that
// the client sends, beside those that open a connection. Everything goes over one.
func TestEveryStepCostsTheBrokerWhatIsDocumented(t *testing.T) {
	for kind, want := range map[lock.Kind]map[string]cost{
		lock.Mutex: {
			"first use": {"channel.open": 6, "queue.declare": 7, "basic.consume": 2, "confirm.select": 2,
				"basic.publish": 2}, // it looks for two quorum queues; four channels are closed by "no queue"
			"release of a short command": {"basic.publish": 2, "basic.cancel": 1, "basic.nack": 2, "queue.delete": 1},
			"use": {"queue.declare": 2, "basic.consume": 1,
				"basic.publish": 2, "basic.nack": 1, "basic.ack": 2},
			"attempt, full": {"channel.open": 2, "queue.declare": 3, "basic.consume": 1, "confirm.select": 1,
				"basic.publish": 1, "channel.close": 1, "queue.delete": 1}, // with the question whether it may claim
			"become next": {"channel.open": 3, "queue.declare": 4, "basic.qos": 1, "basic.consume": 2,
				"confirm.select": 1, "basic.publish": 6, "basic.nack": 4}, // with the question whether B is a claim
			"claim": {"channel.open": 1, "queue.declare": 2, "basic.consume": 1, "basic.cancel": 2, "basic.ack": 2, "channel.close": 1,
				"basic.nack": 2},
			"verification": {"queue.declare": 2},
			"release":      {"basic.publish": 2, "queue.delete": 1, "queue.declare": 1},
		},
		lock.Semaphore: {
			"first use": {"channel.open": 4, "queue.declare": 5, "basic.consume": 2, "confirm.select": 2,
				"basic.publish": 12},
			"release of a short command": {"basic.publish": 2, "basic.cancel": 1, "basic.nack": 2, "queue.delete": 1},
			"use": {"queue.declare": 2, "basic.consume": 1,
				"basic.publish": 13, "basic.nack": 1, "basic.ack": 2},
			"attempt, full": {"channel.open": 3, "queue.declare": 2, "confirm.select": 1,
				"basic.publish": 10, "queue.delete": 1}, // is slot 2 really not there? May it claim?
			"become next": {"channel.open": 2, "queue.declare": 6, "basic.qos": 2, "basic.consume": 3,
				"basic.publish": 6, "basic.nack": 4},
			"handover": {"basic.publish": 1}, // is the slot still there?
			"claim": {"channel.open": 1, "queue.declare": 2, "basic.consume": 1, "basic.cancel": 3, "basic.ack": 2, "basic.nack": 2,
				"channel.close": 1},
			"verification": {"queue.declare": 3},
			"release":      {"basic.publish": 2, "queue.delete": 1, "queue.declare": 1},
		},
	} {
		t.Run(string(kind), func(t *testing.T) {
			id := fresh(kind)
			if kind.Administered() {
				resize(t, shared, id, 1)
				defer resize(t, shared, id, 0)
			}
			p := newTap(t)
			defer p.close()
			owed := cost{} // what inexact steps have not sent yet, and may send during a later one
			step := func(name string, do func()) {
				t.Helper()
				before := p.sum()
				do()
				// What is not waited for may be under way.
				var got cost
				for end := time.Now().Add(patience / 10); time.Now().Before(end); time.Sleep(time.Millisecond) {
					got = p.sum().minus(before)
					late, missing := got.minus(want[name]), want[name].minus(got)
					if late.within(owed) && (len(missing) == 0 || inexact[name] && len(got) > 0) {
						owed = owed.minus(late)
						for method, n := range missing {
							owed[method] += n
						}
						return
					}
				}
				t.Errorf("%s: %v, want %v", name, got, want[name])
			}
			ctx := within(t)
			tapped := func() lock.Lock {
				cfg := at(p.url())
				cfg.Heartbeat = long
				return backend(t, cfg).Lock(id)
			}
			var h lock.Held
			acquire := func(l lock.Lock) func() {
				return func() {
					var err error
					h, err = l.Acquire(ctx)
					must(t, err)
				}
			}

			l := tapped()
			step("connect", func() { must(t, l.Connect(ctx)) })
			step("first use", acquire(l))
			step("start", func() { must(t, h.Ready(ctx)) })
			step("release of a short command", func() { must(t, h.Release(ctx)) })
			step("use", acquire(l))
			must(t, h.Release(ctx))
			must(t, l.Close())

			_, other := holding(t, id, long)
			must(t, shared.PurgeQueue(within(t), "/", id.Name+"-W")) // of calls that nobody has heard
			l = tapped()
			must(t, l.Connect(ctx))
			step("attempt, full", func() {
				if _, err := l.Acquire(ctx); !errors.Is(err, lock.ErrFull) {
					t.Fatal(err)
				}
			})
			rabbit.LookSeldom(l)
			woken := make(chan error, 1)
			step("become next", func() {
				go func() { woken <- l.Wait(ctx, time.Hour) }()
				awaitBaton(t, id)
			})
			step("handover", func() {
				must(t, other.Release(ctx))
				must(t, <-woken)
				acquire(l)()
				rabbit.TakeBAfter(h, 0)
			})
			step("claim", func() {
				must(t, h.Ready(ctx))
				awaitB(t, h)
			})
			step("verification", func() { must(t, h.Verify(ctx)) })
			step("release", func() { must(t, h.Release(ctx)) })
			must(t, l.Close())
			if n := len(p.sent); n != 2 {
				t.Errorf("two contenders made %d connections", n)
			}
		})
	}
}

// cost is how many methods of each name were sent.
type cost map[string]int

// inexact are steps that can cost less: the successor looks again until it has its baton,
// and proves its place before it starts if the last proof is old.
var inexact = map[string]bool{"become next": true, "claim": true}

// within reports whether nothing of it is more than in most.
func (c cost) within(most cost) bool {
	for name, n := range c {
		if n > most[name] {
			return false
		}
	}
	return true
}

func (c cost) minus(before cost) cost {
	d := cost{}
	for name, n := range c {
		if n > before[name] {
			d[name] = n - before[name]
		}
	}
	return d
}

var methodNames = map[method]string{
	{20, 10}: "channel.open", {20, 40}: "channel.close",
	{50, 10}: "queue.declare", {50, 40}: "queue.delete",
	{60, 10}: "basic.qos", {60, 20}: "basic.consume", {60, 30}: "basic.cancel", {60, 40}: "basic.publish",
	{60, 70}: "basic.get", {60, 80}: "basic.ack", {60, 120}: "basic.nack",
	{85, 10}: "confirm.select",
}

// sum returns what all connections have sent, except what answers the broker.
func (p *tap) sum() cost {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := cost{}
	for _, notes := range p.sent {
		for m, n := range notes {
			if name, known := methodNames[m]; known {
				c[name] += n
			}
		}
	}
	return c
}
