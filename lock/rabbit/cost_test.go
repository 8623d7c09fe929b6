package rabbit_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"berth/lock"
	"berth/lock/rabbit"
)

// What docs/performance.md says that each step asks of the broker: methods that
// the client sends, beside those that open a connection.
func TestEveryStepCostsTheBrokerWhatIsDocumented(t *testing.T) {
	for kind, want := range map[lock.Kind]map[string]cost{
		lock.Mutex: {
			"first attempt, full": {"channel.open": 1, "queue.declare": 1, "basic.get": 1},
			"wait": {"channel.open": 3, "queue.declare": 2, "basic.qos": 1,
				"basic.consume": 1}, // with the question whether B is a claim
			"attempt after a wake": {"queue.declare": 1, "basic.get": 1, "basic.consume": 1},
			"ready":                {"basic.get": 1, "basic.publish": 1, "queue.declare": 2, "basic.ack": 1},
			"first verification":   {"channel.open": 1, "queue.declare": 2},
			"verification":         {"queue.declare": 2},
			"release": {"basic.publish": 1, "basic.cancel": 2, "queue.delete": 1, "basic.nack": 1,
				"queue.declare": 1, "channel.close": 1},
		},
		lock.Semaphore: {
			"first attempt, full": {"basic.publish": 32, "channel.open": 1,
				"queue.declare": 1}, // is slot 2 really not there?
			"wait":                 {"channel.open": 2, "queue.declare": 1, "basic.qos": 1, "basic.consume": 1},
			"attempt after a wake": {"queue.declare": 2, "basic.get": 1, "basic.consume": 1},
			"ready":                {"basic.get": 1, "basic.publish": 1, "queue.declare": 2, "basic.ack": 1},
			"first verification":   {"channel.open": 1, "queue.declare": 3},
			"verification":         {"queue.declare": 3},
			"release": {"basic.publish": 1, "basic.cancel": 2, "queue.delete": 1, "basic.nack": 1,
				"queue.declare": 1, "channel.close": 1},
		},
	} {
		t.Run(string(kind), func(t *testing.T) {
			id := fresh(kind)
			if kind.Administered() {
				resize(t, shared, id, 1)
				defer resize(t, shared, id, 0)
			}
			_, h := holding(t, id, long)
			awaitBaton(t, id)
			p := newTap(t)
			l := backend(t, at(p.url())).Lock(id)
			must(t, l.Connect(within(t)))
			p.settled(t, 2)
			step := func(name string, do func()) {
				t.Helper()
				before := p.sum()
				do()
				// What is not waited for may be under way.
				var got cost
				for end := time.Now().Add(patience / 10); time.Now().Before(end); time.Sleep(time.Millisecond) {
					if got = p.sum().minus(before); maps.Equal(got, want[name]) {
						return
					}
				}
				t.Errorf("%s: %v, want %v", name, got, want[name])
			}
			step("first attempt, full", func() {
				if _, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
					t.Fatal(err)
				}
			})
			rabbit.LookSeldom(l)
			woken := make(chan error, 1)
			ctx := within(t)
			step("wait", func() {
				go func() { woken <- l.Wait(ctx, time.Hour) }()
				awaitPlaces(t, id, 2)
			})
			must(t, h.Release(ctx))
			must(t, <-woken)
			step("attempt after a wake", func() {
				var err error
				h, err = l.Acquire(ctx)
				must(t, err)
			})
			step("ready", func() { must(t, h.Ready(ctx)) })
			step("first verification", func() { must(t, h.Verify(ctx)) })
			step("verification", func() { must(t, h.Verify(ctx)) })
			step("release", func() { must(t, h.Release(ctx)) })
			must(t, l.Close())
			p.close()
		})
	}
}

// cost is how many methods of each name were sent.
type cost map[string]int

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

// settled waits until so many connections are ready to be used: the publisher is
// opened beside the holding connection.
func (p *tap) settled(t *testing.T, connections int) {
	t.Helper()
	eventually(t, "the connections", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.sent) == connections && slices.ContainsFunc(p.sent,
			func(notes map[method]int) bool { return notes[method{85, 10}] > 0 })
	})
}
