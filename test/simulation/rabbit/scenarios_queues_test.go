//go:build simulation

package rabbit

import (
	"strings"
	"time"
)

func declareQueues(w *world) {
	a, b := w.login("a"), w.login("b")
	q := w.q("q")
	a.look(1, q)
	a.declare(1, q, "durable", empty)
	a.declare(1, q, "durable", empty)
	b.look(1, q)
	b.declare(1, q, "durable no-wait", empty)
	a.declare(1, w.q("bare"), "durable", nil)
	a.look(1, w.q("bare"))
	b.publish(2, letter{number: 1, key: w.q("bare")}, letter{number: 2, key: w.q("bare")})
	a.look(1, w.q("bare"))
	a.purge(1, w.q("bare"))
	a.declare(2, w.q("transient"), "", nil)
	a.delete(1, q, "")
	a.delete(1, q, "")
	a.delete(1, w.q("bare"), "")
}

func redeclare(w *world) {
	a := w.login("a")
	q := w.q("q")
	a.declare(1, q, "durable", empty)
	for _, options := range []string{"", "durable auto-delete", "durable exclusive"} {
		a.declare(2, q, options, empty)
	}
	for _, other := range []args{nil, ledger,
		{"x-queue-type": "classic", "x-max-length": int64(0)},
		{"x-max-length": int64(0), "x-overflow": "drop-head"},
		{"x-queue-type": "quorum", "x-max-length": int64(0), "x-overflow": "drop-head"},
		{"x-queue-type": "classic", "x-max-length": "0", "x-overflow": "drop-head"},
		{"x-queue-type": "classic", "x-max-length": int64(0), "x-overflow": "reject-publish"},
		{"x-queue-type": "classic", "x-max-length": int64(0), "x-overflow": "drop-head", "x-expires": int64(1000)}} {
		a.declare(2, q, "durable", other)
	}
	a.delete(1, q, "")
}

func refusedArguments(w *world) {
	a := w.login("a")
	q := w.q("q")
	for _, wrong := range []args{{"x-max-length": int64(-1)}, {"x-max-length": "none"}, {"x-message-ttl": int64(-1)},
		{"x-expires": int64(0)}, {"x-queue-type": "none"}, {"x-overflow": "none"},
		{"x-queue-type": "classic", "x-delivery-limit": int64(3)}, {"x-queue-type": "quorum", "x-max-length": int64(-1)}} {
		a.declare(1, q, "durable", wrong)
	}
	a.declare(1, q, "exclusive", args{"x-queue-type": "quorum"})
	a.declare(1, q, "", args{"x-queue-type": "quorum"})
	a.declare(1, q, "durable", empty)
	a.consume(2, q, "c", "", args{"x-priority": "none"})
	a.consume(2, q, "c", "", args{"x-consumer-timeout": int64(60000)})
	a.delete(1, q, "")
}

func queueNames(w *world) {
	a, b := w.login("a"), w.login("b")
	a.declare(1, "", "exclusive", nil)
	a.consume(1, "", "c", "", nil)
	a.declare(1, "amq.mine", "exclusive", nil)
	a.get(2, "", "")
	long := w.q(strings.Repeat("x", 200))
	a.look(3, long)
	a.declare(3, long, "exclusive", nil)
	b.look(3, long)
	b.look(2, w.q(strings.Repeat("y", 230)))
	for _, name := range []string{w.q("ä"), w.q(strings.Repeat("ä", 20)), w.q(strings.Repeat("ä", 45))} {
		a.declare(3, name, "exclusive", nil)
		c := w.login("c")
		c.look(1, name)
		c.close()
	}
	a.look(3, w.q(strings.Repeat("ü", 105)))
}

func exclusiveQueues(w *world) {
	a, b := w.login("a"), w.login("b")
	q := w.q("q")
	a.declare(1, q, "exclusive", empty)
	a.look(1, q)
	a.look(2, q)
	a.declare(2, q, "exclusive", empty)
	a.declare(2, q, "", empty)
	b.look(1, q)
	b.declare(1, q, "exclusive", empty)
	b.declare(1, q, "durable", empty)
	b.delete(1, q, "")
	b.purge(1, q)
	b.consume(1, q, "c", "", nil)
	b.get(1, q, "")
	b.confirms(2)
	b.publish(2, letter{number: 1, key: q, options: "mandatory"})
	a.consume(1, q, "own", "no-ack exclusive", nil)
	b.publish(2, letter{number: 2, key: q, options: "mandatory"})
	a.close()
	b.publish(2, letter{number: 3, key: q, options: "mandatory"})
	b.declare(2, q, "durable", empty)
	c := w.login("c")
	c.declare(1, q, "exclusive", empty)
	c.look(1, q)
	b.delete(2, q, "")
}

// A claim in one round trip, and what becomes of messages behind one that is lost.
func race(w *world) {
	a, b := w.login("a"), w.login("b")
	q, other := w.q("q"), w.q("other")
	a.declare(1, q, "exclusive", empty)
	a.declare(1, other, "durable", ledger)
	b.confirms(1)
	b.w.step("b1: declare q exclusive no-wait, publish", func() {
		claim := writer{methodFrame(1, queueDeclare, b.declaration(q, "exclusive no-wait", empty).b)}
		b.write(append(claim.b, b.letter(1, letter{number: 1, key: other, options: "mandatory"})...))
	})
	a.look(1, other)
	a.delete(1, q, "no-wait")
	b.declare(2, q, "exclusive", empty)
	b.consume(2, q, "own", "exclusive no-ack no-wait", nil)
	a.publish(1, letter{number: 2, key: q})
	a.delete(1, other, "")
}

func autoDelete(w *world) {
	a := w.login("a")
	q := w.q("q")
	a.declare(1, q, "durable auto-delete", nil)
	a.consume(1, q, "c", "", nil)
	a.consume(2, q, "d", "", nil)
	a.cancel(1, "c", "")
	a.look(3, q)
	a.closeChannel(2)
	a.look(3, q)
}

func deleteQueues(w *world) {
	a := w.login("a")
	q := w.q("q")
	a.declare(1, q, "durable", ledger)
	a.publish(1, letter{number: 1, key: q}, letter{number: 2, key: q})
	a.delete(1, q, "if-empty")
	a.consume(2, q, "c", "", nil)
	a.delete(1, q, "if-unused")
	a.delete(1, q, "no-wait")
	a.look(1, q)
	a.purge(3, q)
	a.consume(3, q, "c", "", nil)
	a.get(3, q, "")
}

func expiresIdle(w *world) {
	const part = 1100 * time.Millisecond // of the time after which it goes
	a := w.login("a")
	q := w.q("q")
	a.declare(1, q, "durable", args{"x-expires": int64(2000)})
	for range 2 {
		w.sleep(part)
		a.look(1, q)
	}
	w.sleep(part)
	a.get(1, q, "")
	w.sleep(part)
	a.consume(1, q, "c", "", nil)
	w.sleep(2 * part)
	a.cancel(1, "c", "")
	w.sleep(part)
	a.declare(1, q, "durable", args{"x-expires": int64(2000)})
	w.sleep(part)
	a.publish(1, letter{number: 1, key: q})
	w.sleep(part)
	a.look(1, q)
}

func policies(w *world) {
	a := w.login("a")
	q := w.q("q")
	w.operator.policy("^"+w.prefix, map[string]any{"max-length": 1})
	a.declare(1, q, "durable", ledger)
	a.declare(1, w.q("own"), "exclusive", empty)
	a.confirms(2)
	a.publish(2, letter{number: 1, key: q}, letter{number: 2, key: q})
	a.publish(2, letter{number: 3, key: w.q("own")})
	a.look(1, q)
	w.step("max-length 1, reject-publish", func() {
		w.operator.policy("^"+w.prefix, map[string]any{"max-length": 1, "overflow": "reject-publish"})
	})
	a.publish(2, letter{number: 4, key: q})
	a.look(1, q)
	w.step("message-ttl 300", func() { w.operator.policy("^"+w.prefix, map[string]any{"message-ttl": 300}) })
	a.publish(2, letter{number: 5, key: q})
	w.sleep(time.Second)
	a.look(1, q)
	a.purge(1, q)
	w.step("expires 500", func() { w.operator.policy("^"+w.prefix, map[string]any{"expires": 500}) })
	w.sleep(1500 * time.Millisecond)
	a.look(1, q)
	w.operator.policy("^"+w.prefix, nil)
}

func crashes(w *world) {
	a, b := w.login("a"), w.login("b")
	q := w.q("q")
	a.declare(1, q, "durable", ledger)
	a.confirms(1)
	a.publish(1, letter{number: 1, key: q, options: "persistent"}, letter{number: 2, key: q, options: "persistent"})
	a.consume(1, q, "c", "exclusive", nil)
	w.step("the queue's process crashes", func() { w.operator.crash(q) })
	w.sleep(500 * time.Millisecond)
	b.look(1, q)
	a.ack(1, 1, "")
	b.consume(2, q, "c", "exclusive", nil)
	b.delete(1, q, "")
}
