//go:build simulation

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

// lastReply returns the address for replies of the last message that came.
func (c *client) lastReply() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reply
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
