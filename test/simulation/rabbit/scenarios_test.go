package rabbit

import (
	"strings"
	"time"
)

// scenario is what clients and operators do; what a broker answers is in testdata.
type scenario struct {
	name  string
	run   func(w *world)
	alone bool // it concerns the whole broker
}

var scenarios = []scenario{
	{name: "declare", run: declareQueues},
	{name: "redeclare", run: redeclare},
	{name: "refused arguments", run: refusedArguments},
	{name: "names", run: queueNames},
	{name: "exclusive", run: exclusiveQueues},
	{name: "race for an exclusive queue", run: race},
	{name: "exclusive consumer", run: exclusiveConsumer},
	{name: "end of an exclusive consumer", run: endOfExclusiveConsumer},
	{name: "priorities", run: priorities},
	{name: "turns", run: turns},
	{name: "prefetch", run: prefetch},
	{name: "requeue", run: requeue},
	{name: "requeue in part", run: requeueInPart},
	{name: "unknown tags", run: unknownTags},
	{name: "get", run: getMessages},
	{name: "cancel", run: cancelConsumers},
	{name: "cancelled by the broker", run: cancelledByBroker},
	{name: "consumer tags", run: consumerTags},
	{name: "auto-delete", run: autoDelete},
	{name: "delete", run: deleteQueues},
	{name: "probe", run: probe},
	{name: "probe in a transaction", run: probeInTransaction},
	{name: "transaction", run: transactions},
	{name: "modes", run: modes},
	{name: "length", run: lengths},
	{name: "length 0", run: lengthZero},
	{name: "reject publish", run: rejectPublish},
	{name: "message ttl", run: messageTTL},
	{name: "expiration", run: expirations},
	{name: "expires", run: expiresIdle},
	{name: "user-id", run: userIDs},
	{name: "direct reply-to", run: directReplies},
	{name: "permissions", run: permissionsOfUsers},
	{name: "channels", run: channels},
	{name: "closed by a refusal", run: closedByRefusal},
	{name: "closed by an operator", run: closedByOperator},
	{name: "cut", run: cutConnections},
	{name: "login", run: logins},
	{name: "silence", run: silence},
	{name: "single active consumer", run: singleActive},
	{name: "policies", run: policies},
	{name: "crash", run: crashes},
	{name: "departure", run: departure},
	{name: "quorum", run: quorumQueues},
	{name: "quorum single active", run: quorumSingleActive},
	{name: "quorum requeue", run: quorumRequeue},
	{name: "quorum limits", run: quorumLimits},
	{name: "quorum expiry", run: quorumExpiry},
	{name: "alarm", run: alarms, alone: true},
	{name: "restart", run: restarts, alone: true},
}

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

func exclusiveConsumer(w *world) {
	a, b := w.login("a"), w.login("b")
	q := w.q("q")
	a.declare(1, q, "durable", ledger)
	a.publish(1, letter{number: 1, key: q}, letter{number: 2, key: q})
	a.consume(1, q, "door", "exclusive", nil)
	a.look(2, q)
	b.consume(1, q, "door", "exclusive", nil)
	b.consume(1, q, "door", "", nil)
	b.get(1, q, "")
	b.publish(1, letter{number: 3, key: q})
	a.ack(1, 1, "")
	a.closeChannel(1)
	b.look(1, q)
	b.consume(1, q, "door", "exclusive", nil)
	b.cancel(1, "door", "")
	b.look(1, q)
	a.consume(2, q, "shared", "", nil)
	b.consume(2, q, "door", "exclusive", nil)
	b.close()
	a.delete(2, q, "")
}

// What a channel had is back in one step with letting the next one in.
func endOfExclusiveConsumer(w *world) {
	a, b := w.login("a"), w.login("b")
	q := w.q("q")
	a.declare(1, q, "durable", ledger)
	a.publish(1, letter{number: 1, key: q}, letter{number: 2, key: q}, letter{number: 3, key: q})
	a.consume(1, q, "door", "exclusive", nil)
	a.ack(1, 2, "")
	a.cut()
	w.sleep(100 * time.Millisecond)
	b.consume(1, q, "door", "exclusive", nil)
	b.nack(1, 0, "multiple requeue")
	b.cancel(1, "door", "no-wait")
	b.look(2, q)
	b.nack(1, 0, "multiple requeue")
	b.look(2, q)
	b.consume(1, q, "door", "exclusive", nil)
	b.look(1, "there is no such queue")
	b.look(2, q)
	b.delete(2, q, "")
}

func priorities(w *world) {
	a, b := w.login("a"), w.login("b")
	q := w.q("q")
	a.declare(1, q, "durable", ledger)
	a.qos(1, 1)
	b.qos(1, 1)
	b.qos(2, 1)
	a.consume(1, q, "low", "", args{"x-priority": int64(0)})
	b.consume(1, q, "high", "", args{"x-priority": int64(2)})
	b.consume(2, q, "least", "", args{"x-priority": int64(-1)})
	for n := range 4 {
		a.publish(2, letter{number: n + 1, key: q})
	}
	b.ack(1, 1, "")
	b.nack(1, 2, "requeue")
	a.nack(1, 1, "requeue")
	b.cancel(1, "high", "")
	b.closeChannel(1)
	a.ack(1, 2, "")
	a.look(2, q)
	a.delete(2, q, "")
}

func turns(w *world) {
	a, b := w.login("a"), w.login("b")
	q := w.q("q")
	a.declare(1, q, "durable", ledger)
	a.consume(1, q, "one", "no-ack", nil)
	a.consume(1, q, "two", "no-ack", nil)
	b.consume(1, q, "three", "no-ack", nil)
	for n := range 5 {
		a.publish(2, letter{number: n + 1, key: q})
	}
	a.cancel(1, "two", "")
	for n := range 3 {
		a.publish(2, letter{number: n + 6, key: q})
	}
	a.delete(2, q, "")
}

func prefetch(w *world) {
	a := w.login("a")
	q := w.q("q")
	a.declare(1, q, "durable", ledger)
	for n := range 5 {
		a.publish(2, letter{number: n + 1, key: q})
	}
	a.qos(1, 2)
	a.consume(1, q, "c", "", nil)
	a.ack(1, 1, "")
	a.qos(1, 1)
	a.consume(1, q, "d", "", nil)
	a.ack(1, 4, "multiple")
	a.nack(1, 5, "requeue")
	a.reject(1, 6, "")
	a.look(2, q)
	a.delete(2, q, "")
}

func requeue(w *world) {
	a, b := w.login("a"), w.login("b")
	q := w.q("q")
	a.declare(1, q, "durable", ledger)
	for n := range 4 {
		a.publish(2, letter{number: n + 1, key: q})
	}
	a.consume(1, q, "c", "", nil)
	a.nack(1, 0, "multiple requeue")
	a.publish(2, letter{number: 5, key: q})
	a.nack(1, 6, "multiple requeue")
	a.nack(1, 7, "requeue")
	a.cancel(1, "c", "")
	a.nack(1, 9, "requeue")
	a.reject(1, 8, "requeue")
	b.get(1, q, "")
	b.get(1, q, "")
	b.get(1, q, "no-ack")
	a.closeChannel(1)
	b.closeChannel(1)
	b.consume(2, q, "c", "", nil)
	b.delete(3, q, "")
	b.ack(2, 1, "")
}

func requeueInPart(w *world) {
	a, b := w.login("a"), w.login("b")
	q := w.q("q")
	a.declare(1, q, "durable", args{"x-queue-type": "classic", "x-max-length": int64(2), "x-overflow": "drop-head"})
	a.publish(2, letter{number: 1, key: q}, letter{number: 2, key: q})
	a.consume(1, q, "c", "", nil)
	a.cancel(1, "c", "")
	b.publish(1, letter{number: 3, key: q}, letter{number: 4, key: q})
	a.nack(1, 2, "requeue")
	a.look(2, q)
	b.consume(2, q, "d", "", nil)
	a.delete(2, q, "")
}

func unknownTags(w *world) {
	a := w.login("a")
	q := w.q("q")
	a.declare(3, q, "durable", ledger)
	a.ack(1, 7, "")
	a.nack(1, 7, "multiple requeue")
	a.ack(1, 0, "multiple")
	a.publish(3, letter{number: 1, key: q})
	a.get(1, q, "")
	a.ack(1, 1, "")
	a.ack(1, 1, "")
	a.reject(1, 1, "requeue")
	a.delete(3, q, "")
}

func getMessages(w *world) {
	a, b := w.login("a"), w.login("b")
	q := w.q("q")
	a.get(1, q, "")
	a.declare(1, q, "durable", ledger)
	a.get(1, q, "")
	a.publish(2, letter{number: 1, key: q}, letter{number: 2, key: q, body: "text"}, letter{number: 3, key: q})
	a.get(1, q, "")
	a.get(1, q, "no-ack")
	b.get(1, q, "")
	a.look(2, q)
	b.cut()
	w.sleep(100 * time.Millisecond)
	a.get(1, q, "")
	a.ack(1, 0, "multiple")
	a.look(2, q)
	a.delete(2, q, "")
}

func cancelConsumers(w *world) {
	a := w.login("a")
	q := w.q("q")
	a.declare(1, q, "durable", ledger)
	a.consume(1, q, "c", "", nil)
	a.cancel(1, "c", "")
	a.cancel(1, "c", "")
	a.cancel(1, "other", "no-wait")
	a.publish(1, letter{number: 1, key: q})
	a.consume(1, q, "c", "exclusive", nil)
	a.cancel(1, "c", "no-wait")
	a.consume(2, q, "d", "exclusive", nil)
	a.look(3, q)
	a.ack(1, 1, "")
	a.delete(3, q, "")
}

func cancelledByBroker(w *world) {
	a, b := w.login("a"), w.login("b")
	q := w.q("q")
	a.declare(1, q, "durable", ledger)
	a.publish(1, letter{number: 1, key: q})
	a.consume(1, q, "c", "", nil)
	b.consume(2, q, "d", "", nil)
	b.delete(1, q, "")
	a.ack(1, 1, "")
	a.consume(1, q, "c", "", nil)
	a.declare(1, q, "durable", ledger)
	a.consume(1, q, "c", "", nil)
	w.step("an operator purges the queue", func() { w.operator.purge(q) })
	w.step("an operator deletes the queue", func() { w.operator.deleteQueue(q) })
	a.declare(1, q, "exclusive", empty)
	a.consume(1, q, "c", "", nil)
	w.step("the queue is deleted although it is exclusive", func() { w.operator.deleteQueue(q) })
	a.look(1, q)
	b.declare(1, q, "exclusive", empty)
}

func consumerTags(w *world) {
	a := w.login("a")
	q := w.q("q")
	a.declare(1, q, "durable", ledger)
	a.consume(1, q, "", "", nil)
	a.consume(1, q, "c", "", nil)
	a.consume(2, q, "c", "", nil)
	a.look(2, q)
	a.consume(1, q, "c", "", nil)
	a = w.login("d")
	a.delete(1, q, "")
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
