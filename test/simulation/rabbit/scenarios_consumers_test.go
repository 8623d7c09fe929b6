//go:build simulation

package rabbit

import (
	"time"
)

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

func singleActive(w *world) {
	a, b := w.login("a"), w.login("b")
	q := w.q("q")
	a.declare(1, q, "durable", args{"x-single-active-consumer": true})
	a.consume(1, q, "one", "", nil)
	b.consume(1, q, "two", "", nil)
	b.publish(2, letter{number: 1, key: q}, letter{number: 2, key: q})
	a.look(2, q)
	a.nack(1, 0, "multiple requeue")
	a.cancel(1, "one", "")
	a.closeChannel(1)
	a.consume(2, q, "three", "exclusive", nil)
	b.delete(2, q, "")
}
