//go:build simulation

package rabbit

import (
	"fmt"
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
	w.sleep(time.Second) // a queue takes messages after a look that comes behind them
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

func quorumPolicies(w *world) {
	a := w.login("a")
	q := w.q("q")
	set := func(definition map[string]any) {
		w.step(fmt.Sprintf("policy %v", definition), func() { w.operator.policy("^"+w.prefix, definition) })
	}
	a.declare(3, q, "durable", quorum)
	a.confirms(2)
	set(map[string]any{"max-length": 1, "overflow": "reject-publish"})
	for n := range 3 {
		a.publish(2, letter{number: n + 1, key: q})
	}
	a.look(3, q)
	a.get(3, q, "no-ack")
	a.publish(2, letter{number: 4, key: q})
	a.get(3, q, "no-ack")
	a.publish(2, letter{number: 5, key: q}, letter{number: 6, key: q})
	set(map[string]any{"message-ttl": 300})
	a.publish(2, letter{number: 7, key: q})
	a.closeChannel(2)
	a.reopen(2)
	a.confirms(2)
	a.purge(3, q)
	a.publish(2, letter{number: 8, key: q})
	w.sleep(time.Second)
	a.look(3, q)
	set(map[string]any{"delivery-limit": 1})
	for _, name := range []string{"q", "unlimited"} {
		q := w.q(name)
		if name == "unlimited" {
			a.declare(3, q, "durable", quorum.with(args{"x-delivery-limit": int64(-1)}))
		}
		a.publish(2, letter{number: 5, key: q})
		a.qos(1, 1)
		a.consume(1, q, "c", "", nil)
		a.reject(1, 1, "requeue")
		a.reject(1, 2, "requeue")
		a.closeChannel(1)
		a.reopen(1)
	}
	set(map[string]any{"expires": 500})
	w.sleep(8 * time.Second)
	a.look(3, q)
	w.operator.policy("^"+w.prefix, nil)
}

// What is put back comes again only later, if a policy says so, or as soon as an argument says.
func delayedRetry(w *world) {
	a := w.login("a")
	set := func(kind string, min int) {
		w.step(fmt.Sprintf("delay what is %s for %d ms", kind, min), func() {
			w.operator.policy("^"+w.prefix, map[string]any{"delayed-retry-type": kind, "delayed-retry-min": min})
		})
	}
	set("all", 2000)
	soon := args{"x-delayed-retry-min": int64(1), "x-delayed-retry-max": int64(1)}
	off := args{"x-delayed-retry-type": "disabled"}
	for _, of := range []struct {
		name string
		args args
	}{{"late", quorum}, {"soon", quorum.with(soon)}, {"off", quorum.with(off)}} {
		q := w.q(of.name)
		a.declare(3, q, "durable", of.args)
		a.publish(3, letter{number: 1, key: q})
		a.consume(1, q, "c", "", nil)
		a.nack(1, 1, "requeue")
		a.look(3, q)
		w.sleep(3 * time.Second)
		a.reject(1, 2, "requeue")
		a.look(3, q)
		a.closeChannel(1)
		a.reopen(1)
		w.sleep(3 * time.Second)
		a.purge(3, q)
	}
	q := w.q("late")
	for _, kind := range []string{"failed", "returned"} {
		set(kind, 2000)
		a.publish(3, letter{number: 2, key: q})
		a.consume(1, q, "c", "", nil)
		a.nack(1, 1, "requeue")
		w.sleep(2 * time.Second)
		a.reject(1, 2, "requeue")
		a.look(3, q)
		a.purge(3, q)
		a.closeChannel(1)
		a.reopen(1)
		a.purge(3, q)
	}
	w.operator.policy("^"+w.prefix, nil)
	a.delete(3, q, "")
}
