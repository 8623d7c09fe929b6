//go:build simulation

package rabbit

import (
	"maps"
	"time"
)

// with returns arguments with some more.
func (a args) with(more args) args {
	all := maps.Clone(a)
	maps.Copy(all, more)
	return all
}

// A delivery that is not acknowledged in time: before 4.3 it ends its channel, from then on, and on quorum queues alone,
// its consumer. That is served again once it has acknowledged what came too late for it.
func consumerTimeouts(w *world) {
	w.operator.timeout(time.Second, 500*time.Millisecond)
	defer w.operator.timeout(0, 0)
	a, b := w.login("a"), w.login("b")
	for _, of := range []struct {
		name string
		args args
	}{{"classic", ledger}, {"quorum", quorum}, {"patient", quorum.with(args{"x-consumer-timeout": int64(60000)})}} {
		q := w.q(of.name)
		a.declare(3, q, "durable", of.args)
		a.consume(1, q, "c", "", nil)
		a.publish(3, letter{number: 1, key: q})
		w.sleep(3 * time.Second)
		a.look(3, q)
		b.consume(1, q, "d", "no-ack", nil)
		b.cancel(1, "d", "")
		a.publish(3, letter{number: 2, key: q})
		a.look(3, q)
		a.ack(1, 1, "")
		a.ack(1, 0, "multiple")
		a.delete(3, q, "")
		a.closeChannel(1)
		a.reopen(1)
	}
	q := w.q("of-a-consumer")
	a.declare(3, q, "durable", quorum)
	a.consume(1, q, "c", "", args{"x-consumer-timeout": int64(60000)})
	a.publish(3, letter{number: 1, key: q})
	w.sleep(3 * time.Second)
	a.ack(1, 0, "multiple")
	a.delete(3, q, "")
	q = w.q("got")
	a.declare(3, q, "durable", quorum)
	a.publish(3, letter{number: 1, key: q})
	a.get(2, q, "")
	w.sleep(3 * time.Second)
	a.look(3, q)
	a.delete(3, q, "")
	if w.version >= V4_0 {
		policyOfTimeouts(w, a)
	}
}

// Of a policy and an argument the smaller counts.
func policyOfTimeouts(w *world, a *client) {
	q := w.q("of-a-policy")
	w.operator.policy("^"+q, map[string]any{"consumer-timeout": 60000})
	a.declare(3, q, "durable", quorum)
	a.consume(1, q, "c", "", nil)
	a.publish(3, letter{number: 1, key: q})
	w.sleep(3 * time.Second)
	a.ack(1, 0, "multiple")
	a.delete(3, q, "")
	a.closeChannel(1)
	a.reopen(1)
	a.declare(3, q, "durable", quorum.with(args{"x-consumer-timeout": int64(1000)}))
	a.consume(1, q, "c", "", nil)
	a.publish(3, letter{number: 1, key: q})
	w.sleep(3 * time.Second)
	a.ack(1, 0, "multiple")
	a.delete(3, q, "")
	w.operator.policy("^"+q, nil)
}
