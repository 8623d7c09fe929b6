//go:build simulation

package rabbit

import (
	"time"
)

var quorum = args{"x-queue-type": "quorum", "x-overflow": "drop-head", "x-max-length": int64(1000)}

func quorumQueues(w *world) {
	a, b := w.login("a"), w.login("b")
	q := w.q("q")
	a.declare(1, q, "durable", quorum)
	a.declare(1, q, "durable", quorum)
	a.confirms(2)
	a.publish(2, letter{number: 1, key: q, options: "mandatory"}, letter{number: 2, key: q, options: "mandatory"})
	a.look(1, q)
	a.get(1, q, "")
	a.look(3, q)
	a.consume(3, q, "c", "exclusive", nil)
	b.consume(1, q, "d", "exclusive", nil)
	b.publish(2, letter{number: 3, key: q}, letter{number: 4, key: q})
	a.look(2, q)
	b.cancel(1, "d", "")
	a.look(2, q)
	b.closeChannel(1)
	a.ack(1, 1, "")
	a.look(2, q)
	a.purge(2, q)
	a.delete(2, q, "")
	a.publish(2, letter{number: 5, key: q, options: "mandatory"})
}

func quorumSingleActive(w *world) {
	a, b := w.login("a"), w.login("b")
	q := w.q("q")
	with := args{"x-queue-type": "quorum", "x-overflow": "drop-head", "x-max-length": int64(1000),
		"x-single-active-consumer": true}
	if w.version >= V4_0 {
		with["x-delivery-limit"] = int64(-1)
	}
	a.declare(1, q, "durable", with)
	a.consume(1, q, "one", "", nil)
	a.look(2, q)
	b.consume(1, q, "two", "", nil)
	b.confirms(2)
	b.publish(2, letter{number: 1, key: q})
	b.publish(2, letter{number: 2, key: q})
	a.look(2, q)
	a.nack(1, 1, "requeue")
	a.nack(1, 0, "multiple requeue")
	b.get(3, q, "")
	a.cancel(1, "one", "")
	a.look(2, q)
	a.closeChannel(1)
	b.nack(1, 0, "multiple requeue")
	b.cut()
	w.sleep(300 * time.Millisecond)
	a.look(2, q)
	a.consume(2, q, "three", "", nil)
	a.delete(3, q, "")
}

func quorumRequeue(w *world) {
	a := w.login("a")
	q := w.q("q")
	a.declare(3, q, "durable", quorum)
	for n := range 4 {
		a.publish(3, letter{number: n + 1, key: q})
	}
	a.consume(1, q, "c", "", nil)
	a.nack(1, 0, "multiple requeue")
	a.cancel(1, "c", "")
	a.nack(1, 7, "requeue")
	a.nack(1, 5, "requeue")
	a.reject(1, 6, "")
	a.look(3, q)
	a.get(2, q, "")
	a.get(2, q, "")
	a.closeChannel(1)
	a.get(2, q, "")
	a.get(2, q, "")
	a.delete(3, q, "")
}

func quorumLimits(w *world) {
	a := w.login("a")
	q := w.q("q")
	for _, limit := range []int64{1, -1} {
		a.declare(3, q, "durable", args{"x-queue-type": "quorum", "x-delivery-limit": limit})
		a.publish(3, letter{number: 1, key: q}, letter{number: 2, key: q}, letter{number: 3, key: q})
		a.qos(1, 1)
		a.consume(1, q, "nacks", "", nil)
		for n := range uint64(3) {
			a.nack(1, n+1, "requeue")
		}
		a.closeChannel(1)
		a.reopen(1)
		a.qos(2, 1)
		a.consume(2, q, "rejects", "", nil)
		for n := range uint64(3) {
			a.reject(2, n+1, "requeue")
		}
		a.closeChannel(2)
		a.reopen(2)
		for range 3 {
			a.qos(1, 1)
			a.consume(1, q, "closes", "", nil)
			a.closeChannel(1)
			a.reopen(1)
		}
		a.look(3, q)
		a.delete(3, q, "")
	}
	a.declare(3, q, "durable", args{"x-queue-type": "quorum", "x-max-length": int64(2)})
	for n := range 4 {
		a.publish(3, letter{number: n + 1, key: q})
	}
	a.look(3, q)
	a.get(3, q, "")
	a.delete(3, q, "")
	a.declare(3, q, "durable", args{"x-queue-type": "quorum", "x-max-length": int64(0), "x-overflow": "drop-head"})
	a.confirms(3)
	a.publish(3, letter{number: 1, key: q, options: "mandatory"})
	a.look(3, q)
	a.get(3, q, "")
	a.delete(3, q, "")
}

func quorumExpiry(w *world) {
	a := w.login("a")
	q := w.q("q")
	a.declare(3, q, "durable", quorum)
	a.publish(3, letter{number: 1, key: q, expiration: "500"}, letter{number: 2, key: q})
	a.get(1, q, "")
	w.sleep(time.Second)
	a.look(3, q)
	a.nack(1, 1, "requeue")
	w.sleep(200 * time.Millisecond)
	a.get(1, q, "no-ack")
	a.get(1, q, "no-ack")
	a.delete(3, q, "")
}
