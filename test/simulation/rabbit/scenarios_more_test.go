package rabbit

import (
	"time"
)

func probe(w *world) {
	a, b := w.login("a"), w.login("b")
	there, gone := w.q("there"), w.q("gone")
	a.declare(1, there, "durable", empty)
	a.confirms(1)
	a.publish(1, letter{key: there, options: "mandatory"})
	a.publish(1, letter{key: gone, options: "mandatory"})
	a.publish(1, letter{key: gone})
	a.publish(1, letter{key: there, options: "mandatory"}, letter{key: gone, options: "mandatory"},
		letter{key: there, options: "mandatory"})
	b.publish(1, letter{key: gone, options: "mandatory"})
	b.publish(1, letter{key: gone, options: "immediate"})
	a.publish(1, letter{exchange: "no such exchange", key: gone})
	a.delete(2, there, "")
}

func probeInTransaction(w *world) {
	a := w.login("a")
	there, gone := w.q("there"), w.q("gone")
	a.declare(1, there, "durable", empty)
	a.tx(1, txSelect)
	a.publish(1, letter{key: there, options: "mandatory"}, letter{key: gone, options: "mandatory"})
	a.tx(1, txCommit)
	a.publish(1, letter{key: there, options: "mandatory"})
	a.tx(1, txCommit)
	a.tx(1, txCommit)
	a.publish(1, letter{number: 1, key: there, options: "mandatory"})
	a.delete(2, there, "")
	a.tx(1, txCommit)
}

func transactions(w *world) {
	a := w.login("a")
	q := w.q("q")
	a.declare(3, q, "durable", ledger)
	a.tx(1, txCommit)
	a.tx(1, txRollback)
	a.tx(1, txSelect)
	a.tx(1, txSelect)
	a.publish(1, letter{number: 1, key: q}, letter{number: 2, key: q})
	a.look(3, q)
	a.tx(1, txRollback)
	a.look(3, q)
	a.publish(1, letter{number: 3, key: q}, letter{number: 4, key: q, options: "persistent"})
	a.tx(1, txCommit)
	a.get(1, q, "")
	a.ack(1, 1, "")
	a.tx(1, txRollback)
	a.look(3, q)
	a.ack(1, 1, "")
	a.tx(1, txCommit)
	a.closeChannel(1)
	a.look(3, q)
	a.delete(3, q, "")
}

func modes(w *world) {
	a := w.login("a")
	a.confirms(1)
	a.confirms(1)
	a.tx(1, txSelect)
	a.tx(2, txSelect)
	a.confirms(2)
}

func lengths(w *world) {
	a := w.login("a")
	q := w.q("q")
	a.declare(1, q, "durable", args{"x-queue-type": "classic", "x-max-length": int64(2), "x-overflow": "drop-head"})
	a.confirms(1)
	for n := range 4 {
		a.publish(1, letter{number: n + 1, key: q})
	}
	a.look(1, q)
	a.publish(1, letter{number: 5, key: q, options: "persistent"})
	a.consume(2, q, "c", "", nil)
	a.publish(3, letter{number: 6, key: q}, letter{number: 7, key: q}, letter{number: 8, key: q})
	a.nack(2, 0, "multiple requeue")
	a.closeChannel(2)
	a.look(1, q)
	a.delete(1, q, "")
}

func lengthZero(w *world) {
	a, b := w.login("a"), w.login("b")
	q := w.q("q")
	a.declare(1, q, "exclusive", empty)
	b.confirms(1)
	b.publish(1, letter{number: 1, key: q, options: "mandatory"})
	a.look(1, q)
	a.get(1, q, "")
	a.consume(1, q, "c", "exclusive no-ack", nil)
	b.publish(1, letter{number: 2, key: q, options: "mandatory"})
	b.publish(1, letter{number: 3, key: q, options: "mandatory", expiration: "0"})
	a.cancel(1, "c", "")
	a.consume(1, q, "d", "", nil)
	b.publish(1, letter{number: 4, key: q, options: "mandatory"})
	a.nack(1, 3, "requeue")
	a.cancel(1, "d", "")
	a.nack(1, 4, "requeue")
	a.look(1, q)
}

func rejectPublish(w *world) {
	a := w.login("a")
	q := w.q("q")
	a.declare(1, q, "durable", args{"x-max-length": int64(1), "x-overflow": "reject-publish"})
	a.confirms(1)
	for n := range 3 {
		a.publish(1, letter{number: n + 1, key: q, options: "mandatory"})
	}
	a.look(2, q)
	a.get(2, q, "no-ack")
	a.publish(1, letter{number: 4, key: q})
	a.tx(3, txSelect)
	a.publish(3, letter{number: 5, key: q})
	a.tx(3, txCommit)
	a.delete(2, q, "")
}

func messageTTL(w *world) {
	a := w.login("a")
	q := w.q("q")
	a.declare(1, q, "durable", args{"x-message-ttl": int64(1000)})
	a.publish(1, letter{number: 1, key: q}, letter{number: 2, key: q, expiration: "60000"})
	a.look(1, q)
	a.get(2, q, "")
	w.sleep(1500 * time.Millisecond)
	a.look(1, q)
	a.nack(2, 1, "requeue")
	a.look(1, q)
	a.publish(1, letter{number: 3, key: q})
	a.get(1, q, "")
	a.delete(1, q, "")
	a.declare(1, q, "durable", args{"x-message-ttl": int64(0)})
	a.confirms(1)
	a.publish(1, letter{number: 1, key: q})
	a.consume(2, q, "c", "", nil)
	a.publish(1, letter{number: 2, key: q})
	a.nack(2, 2, "requeue")
	a.delete(1, q, "")
}

func expirations(w *world) {
	a := w.login("a")
	q := w.q("q")
	a.declare(1, q, "durable", ledger)
	a.publish(1, letter{number: 1, key: q}, letter{number: 2, key: q, expiration: "500"},
		letter{number: 3, key: q, expiration: "0"}, letter{number: 4, key: q})
	a.look(1, q)
	w.sleep(time.Second)
	a.look(1, q)
	a.get(1, q, "no-ack")
	a.look(1, q)
	a.publish(1, letter{number: 5, key: q, expiration: "0"})
	a.get(1, q, "no-ack")
	a.publish(1, letter{number: 6, key: q, expiration: "0"})
	a.look(1, q)
	a.consume(2, q, "c", "", nil)
	a.publish(1, letter{number: 7, key: q, expiration: "0"})
	a.nack(2, 1, "requeue")
	a.publish(1, letter{number: 8, key: q, expiration: "none"})
	a.publish(1, letter{number: 9, key: q, expiration: "1s"})
	a.publish(1, letter{number: 10, key: q, expiration: "-1"})
	a.delete(3, q, "")
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

func userIDs(w *world) {
	a := w.login("a")
	q := w.q("q")
	a.declare(3, q, "durable", ledger)
	a.confirms(1)
	a.publish(1, letter{number: 1, key: q, user: "guest"})
	a.publish(1, letter{number: 2, key: q, user: "other"})
	a.confirms(1)
	a.publish(1, letter{number: 3, key: q}, letter{number: 4, key: w.q("gone"), user: "other", options: "mandatory"})
	a.consume(3, q, "c", "", nil)
	a.delete(3, q, "")
}

func directReplies(w *world) {
	a, b := w.login("a"), w.login("b")
	q := w.q("q")
	b.declare(1, q, "exclusive", empty)
	b.consume(1, q, "c", "no-ack", nil)
	a.consume(1, "amq.rabbitmq.reply-to", "r", "", nil)
	a.publish(1, letter{number: 1, key: q, reply: "amq.rabbitmq.reply-to"})
	a.consume(1, "amq.rabbitmq.reply-to", "r", "no-ack", nil)
	a.publish(1, letter{number: 2, key: q, reply: "amq.rabbitmq.reply-to", options: "mandatory"})
	b.confirms(2)
	reply := b.lastReply()
	b.publish(2, letter{number: 3, key: reply})
	b.publish(2, letter{number: 4, key: reply, options: "mandatory"})
	b.look(3, reply)
	a.consume(1, "amq.rabbitmq.reply-to", "s", "no-ack", nil)
	b.publish(2, letter{number: 5, key: reply, options: "mandatory"})
	a.consume(1, "amq.rabbitmq.reply-to", "r", "no-ack", nil)
	a.cancel(1, "r", "")
	a.close()
	b.publish(2, letter{number: 6, key: "amq.rabbitmq.reply-to.nobody", options: "mandatory"})
}

func permissionsOfUsers(w *world) {
	user := w.prefix
	w.operator.user(user, "^"+w.q("mine"), "^$", "^"+w.q("mine"))
	guest, a := w.login("guest"), w.loginAs("a", user, "secret", 0)
	guest.declare(1, w.q("other"), "durable", ledger)
	a.declare(1, w.q("mine"), "durable", ledger)
	a.declare(1, w.q("theirs"), "durable", ledger)
	a.declare(1, w.q("other"), "durable", args{"x-max-length": int64(-1)})
	a.look(1, w.q("other"))
	a.look(1, w.q("theirs"))
	a.publish(1, letter{number: 1, key: w.q("mine")})
	a.consume(1, w.q("other"), "c", "", nil)
	a.get(1, w.q("other"), "")
	a.delete(1, w.q("other"), "")
	a.purge(1, w.q("other"))
	a.consume(1, w.q("mine"), "c", "", nil)
	w.operator.user(user, "^$", "amq.default", "^$")
	b := w.loginAs("b", user, "secret", 0)
	b.publish(1, letter{number: 2, key: w.q("mine")})
	b.look(1, w.q("mine"))
	guest.delete(1, w.q("other"), "")
	guest.delete(1, w.q("mine"), "")
}

func channels(w *world) {
	a := w.login("a")
	a.closeChannel(1)
	a.reopen(1)
	a.do(1, channelFlow, "channel.flow on", writer{[]byte{1}})
	a.do(0, connectionUpdateSecret, "update-secret", func() (w writer) {
		w.long("other")
		w.short("renewed")
		return w
	}())
	a.do(9, queueDeclare, "declare on a channel that is not open", a.declaration("x", "", nil))
	b := w.login("b")
	b.reopen(2)
	c := w.login("c")
	c.do(1, method(77<<16|1), "an unknown method", writer{})
	d := w.login("d")
	d.do(1, channelFlow, "channel.flow off", writer{[]byte{0}})
}

// A refusal closes its channel alone, and what the channel had is back before the client hears of it.
func closedByRefusal(w *world) {
	a, b := w.login("a"), w.login("b")
	q := w.q("q")
	a.declare(2, q, "durable", ledger)
	a.publish(2, letter{number: 1, key: q}, letter{number: 2, key: q})
	a.consume(1, q, "c", "", nil)
	b.consume(1, q, "d", "", nil)
	w.step("a1: look for nothing, publish", func() {
		a.send(1, queueDeclare, a.declaration(w.q("none"), "passive", nil))
		a.write(a.letter(1, letter{number: 3, key: q}))
	})
	a.look(2, q)
	b.nack(1, 0, "multiple requeue")
	a.delete(2, q, "")
}

func closedByOperator(w *world) {
	a, b := w.login("a"), w.login("b")
	q := w.q("q")
	a.declare(1, w.q("own"), "exclusive", empty)
	a.declare(1, q, "durable", ledger)
	a.publish(1, letter{number: 1, key: q}, letter{number: 2, key: q})
	a.consume(1, q, "c", "exclusive", nil)
	w.step("an operator closes the connection", func() { w.operator.closeConnection(w.prefix + ".a") })
	b.look(1, w.q("own"))
	b.consume(2, q, "c", "exclusive", nil)
	b.delete(3, q, "")
}

func cutConnections(w *world) {
	a, b := w.login("a"), w.login("b")
	own, q := w.q("own"), w.q("q")
	a.declare(1, own, "exclusive", empty)
	a.declare(1, q, "durable", ledger)
	b.consume(1, q, "c", "", nil)
	a.consume(1, q, "d", "", nil)
	b.publish(2, letter{number: 1, key: q}, letter{number: 2, key: q}, letter{number: 3, key: q})
	a.cut()
	w.sleep(200 * time.Millisecond)
	b.declare(2, own, "exclusive", empty)
	b.delete(2, q, "")
}

func logins(w *world) {
	w.loginAs("a", "guest", "wrong", 0)
	w.loginAs("b", "nobody", "wrong", 0)
	w.operator.user(w.prefix+"-without", "", "", "")
	w.loginAs("c", "guest", "guest", 1)
}

// A client that says nothing is given up between the second and the third heartbeat.
func silence(w *world) {
	a, b := w.loginAs("a", "guest", "guest", 1), w.login("b")
	a.declare(1, w.q("own"), "exclusive", empty)
	a.beat(500*time.Millisecond, 3*time.Second)
	b.look(1, w.q("own"))
	w.sleep(4 * time.Second)
	b.look(1, w.q("own"))
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
	a.publish(1, letter{number: 1, key: q, options: "persistent"}, letter{number: 2, key: q, options: "persistent"})
	a.consume(1, q, "c", "exclusive", nil)
	w.step("the queue's process crashes", func() { w.operator.crash(q) })
	w.sleep(500 * time.Millisecond)
	b.look(1, q)
	a.ack(1, 1, "")
	b.consume(2, q, "c", "exclusive", nil)
	b.delete(1, q, "")
}

// What a holder does in one write as it leaves.
func departure(w *world) {
	o, n := w.login("o"), w.login("n")
	slot, t := w.q("1-B"), w.q("1-T")
	o.declare(1, t, "durable", ledger)
	o.declare(1, slot, "exclusive", empty)
	o.confirms(1)
	o.publish(1, letter{number: 1, key: t, options: "mandatory persistent"})
	n.consume(1, t, "door", "exclusive", nil)
	n.publish(2, letter{number: 2, key: t, options: "mandatory persistent"})
	n.nack(1, 0, "multiple requeue")
	w.step("o1: publish released, delete B", func() {
		out := o.letter(1, letter{number: 3, key: t, options: "mandatory persistent"})
		var d writer
		d.u16(0)
		d.short(slot)
		d.u8(flags("no-wait", "", "", "no-wait"))
		o.write(append(out, methodFrame(1, queueDelete, d.b)...))
	})
	n.declare(2, slot, "exclusive", empty)
	n.cancel(1, "door", "")
	w.step("n1: ack 3 and 5, nack 4", func() {
		out := methodFrame(1, basicAck, n.settling(basicAck, 3, "").b)
		out = append(out, methodFrame(1, basicAck, n.settling(basicAck, 5, "").b)...)
		n.write(append(out, methodFrame(1, basicNack, n.settling(basicNack, 4, "requeue").b)...))
	})
	n.look(2, t)
	n.look(2, slot)
	n.delete(3, t, "")
}

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

func alarms(w *world) {
	a, b, c := w.loginAs("a", "guest", "guest", 5), w.login("b"), w.login("c")
	q := w.q("q")
	a.declare(1, q, "durable", ledger)
	a.declare(1, w.q("a"), "exclusive", empty)
	a.confirms(2)
	a.publish(2, letter{number: 1, key: q, options: "mandatory"})
	b.confirms(2)
	w.step("an alarm begins", func() { w.operator.alarm(true) })
	a.look(1, q)
	b.declare(1, w.q("b"), "exclusive", empty)
	a.publish(2, letter{number: 2, key: q, options: "mandatory"})
	a.look(1, q)
	b.look(1, q)
	b.consume(3, q, "c", "", nil)
	d := w.login("d")
	d.confirms(1)
	d.publish(1, letter{number: 3, key: q, options: "mandatory"}, letter{number: 4, key: w.q("none"), options: "mandatory"})
	d.look(2, q)
	c.look(1, w.q("a"))
	a.cut()
	w.sleep(3 * time.Second)
	c.look(1, w.q("a"))
	e := w.login("e")
	e.declare(1, w.q("e"), "exclusive", empty)
	e.confirms(1)
	e.publish(1, letter{number: 5, key: q, options: "mandatory"})
	e.cut() // without heartbeats
	w.sleep(time.Second)
	c.look(1, w.q("e"))
	w.step("the alarm is over", func() { w.operator.alarm(false) })
	d.look(2, q)
	c.look(1, w.q("e"))
	b.delete(1, q, "")
}

func restarts(w *world) {
	a := w.login("a")
	q := w.q("q")
	a.declare(1, q, "durable", ledger)
	a.declare(1, w.q("own"), "exclusive", empty)
	a.declare(1, w.q("quorum"), "durable", quorum)
	a.confirms(1)
	a.publish(1, letter{number: 1, key: q, options: "persistent"}, letter{number: 2, key: q},
		letter{number: 3, key: q, options: "persistent"})
	a.publish(1, letter{number: 4, key: w.q("quorum")})
	a.get(1, q, "")
	w.step("the node is restarted", func() { w.operator.restart() })
	b := w.login("b")
	b.look(1, w.q("own"))
	b.look(1, q)
	b.consume(1, q, "c", "", nil)
	b.get(2, w.q("quorum"), "")
	b.delete(3, q, "")
	b.delete(3, w.q("quorum"), "")
}

// lastReply returns the address for replies of the last message that came.
func (c *client) lastReply() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reply
}
