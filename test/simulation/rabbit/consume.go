package rabbit

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// consumer is a consumer of a queue.
type consumer struct {
	channel   *channel
	queue     *queue
	tag       string
	noAck     bool
	exclusive bool
	priority  int64
	prefetch  int           // 0: any number
	timeout   time.Duration // for its acknowledgements, of a quorum queue of 4.3
	inHand    int           // of its messages
	bonus     int           // by how much its prefetch is exceeded
	suspect   bool          // its node does not answer; of a quorum queue
	late      []hand        // that it had for too long, and has not settled since
}

func (ch *channel) consume(m method, r *reader) {
	r.u16()
	name, tag, bits := r.short(), r.short(), r.bits()
	arguments := r.table()
	noWait := bits[3]
	name = ch.orRecent(name)
	if ch.consumers[tag] != nil || tag != "" && tag == ch.replyTag {
		refuse(notAllowed, "attempt to reuse consumer tag '%s'", tag)
	}
	if tag == "" {
		tag = ch.cluster.token("amq.ctag-")
	}
	if name == directReply {
		ch.consumeReplies(tag, bits[1], noWait)
		return
	}
	ch.cluster.permit(ch.conn.user, mayRead, name, inVhost(name))
	ch.withQueue(name, func(q *queue) {
		ch.owns(q)
		c := &consumer{channel: ch, queue: q, tag: tag, noAck: bits[1], exclusive: bits[2], prefetch: ch.prefetch}
		c.read(arguments)
		ch.begin(m, c, noWait)
	})
}

// begin adds a consumer to its queue.
func (ch *channel) begin(m method, c *consumer, noWait bool) {
	q := c.queue
	ch.meet(q)
	ch.call(m, q, func() func() {
		refused := q.admit(c)
		return func() {
			if refused != nil {
				panic(refused)
			}
			ch.consumers[c.tag] = c
			if !noWait {
				var w writer
				w.short(c.tag)
				ch.emit(basicConsumeOK, w.b)
			}
		}
	}, func() { ch.goneInCall(q) })
}

// read reads the arguments of a consumer.
func (c *consumer) read(arguments table) {
	where := inVhost(c.queue.name)
	if v, ok := arguments["x-priority"]; ok {
		n, isNumber := v.v.(int64)
		if !isNumber {
			refuse(preconditionFailed, "invalid arg 'x-priority' for %s: \"expected integer, got %s\"", where, v.kind)
		}
		c.priority = n
	}
	if v, ok := arguments["x-consumer-timeout"]; ok {
		if c.channel.cluster.config.Version >= V4_3 && !c.queue.quorum {
			refuse(preconditionFailed, "invalid arg 'x-consumer-timeout' for %s of queue type rabbit_classic_queue", where)
		}
		if n, isNumber := v.v.(int64); isNumber {
			c.timeout = time.Duration(n) * time.Millisecond
		}
	}
}

// consumeReplies consumes from the channel's own queue of direct reply-to.
func (ch *channel) consumeReplies(tag string, noAck, noWait bool) {
	switch {
	case !noAck:
		refuse(preconditionFailed, "reply consumer cannot acknowledge")
	case ch.replyQueue != "":
		refuse(preconditionFailed, "reply consumer already set")
	}
	ch.replyTag, ch.replyQueue = tag, ch.cluster.token(directReply+".")
	ch.cluster.replies[ch.replyQueue] = ch
	if !noWait {
		var w writer
		w.short(tag)
		ch.emit(basicConsumeOK, w.b)
	}
}

func (ch *channel) deliverReply(m *message) {
	if ch.replyQueue != m.key {
		return
	}
	ch.emitDelivery(ch.replyTag, ch.tag+1, false, m)
	if ch.cluster.config.Version >= V4_3 { // others give all replies the same number
		ch.tag++
	}
}

func (ch *channel) cancel(m method, r *reader) {
	tag, noWait := r.short(), r.bits()[0]
	ok := func() {
		if !noWait {
			var w writer
			w.short(tag)
			ch.emit(basicCancelOK, w.b)
		}
	}
	c := ch.consumers[tag]
	switch {
	case tag == ch.replyTag && ch.replyQueue != "":
		delete(ch.cluster.replies, ch.replyQueue)
		ch.replyTag, ch.replyQueue = "", ""
		ok()
	case c == nil:
		ok()
	default:
		delete(ch.consumers, tag)
		ch.call(m, c.queue, func() func() {
			c.queue.cancel(c)
			return ok
		}, ok)
	}
}

// deliver is told of a message for a consumer.
func (ch *channel) deliver(h hand, redelivered bool) {
	ch.tag++
	if !h.consumer.noAck {
		ch.unacked = append(ch.unacked, &delivery{hand: h, tag: ch.tag, queue: h.consumer.queue, since: ch.cluster.now})
	}
	ch.emitDelivery(h.consumer.tag, ch.tag, redelivered, h.entry.message)
}

func (ch *channel) emitDelivery(consumer string, tag uint64, redelivered bool, m *message) {
	if ch.dead || ch.closing {
		return
	}
	var w writer
	w.short(consumer)
	w.u64(tag)
	w.flag(redelivered)
	w.short("")
	w.short(m.key)
	ch.conn.emit(contentFrames(ch.number, basicDeliver, w.b, m, ch.conn.frameMax))
}

// queueDown is told that a queue is no more.
func (ch *channel) queueDown(q *queue, deleted bool) {
	for sequence, of := range ch.unconfirmed {
		if of == q {
			ch.unconfirm(sequence, q, deleted)
		}
	}
	for _, tag := range slices.Sorted(maps.Keys(ch.consumers)) {
		if c := ch.consumers[tag]; c.queue == q {
			ch.lostQueue(c, deleted)
		}
	}
}

// lostQueue goes on consuming from a queue whose process has crashed, as RabbitMQ 3 does, or ends the consumer.
func (ch *channel) lostQueue(c *consumer, deleted bool) {
	again := ch.node.book.live[c.queue.name]
	if deleted || again == nil || again == c.queue || ch.cluster.config.Version >= V4_0 {
		ch.dropConsumer(c)
		return
	}
	anew := *c
	anew.queue, anew.inHand = again, 0
	ch.consumers[c.tag] = &anew
	ch.meet(again)
	ch.tell(&again.process, func() { again.admit(&anew) })
}

// dropConsumer ends a consumer that the client has not cancelled.
func (ch *channel) dropConsumer(c *consumer) {
	delete(ch.consumers, c.tag)
	if wants, _ := ch.conn.capabilities["consumer_cancel_notify"].v.(bool); wants {
		ch.emitCancel(c)
	}
}

func (ch *channel) emitCancel(c *consumer) {
	var w writer
	w.short(c.tag)
	w.u8(1)
	ch.emit(basicCancel, w.b)
}

func (ch *channel) get(m method, r *reader) {
	r.u16()
	name, noAck := ch.orRecent(r.short()), r.bits()[0]
	ch.cluster.permit(ch.conn.user, mayRead, name, inVhost(name))
	ch.withQueue(name, func(q *queue) {
		ch.owns(q)
		if q.single && q.quorum {
			kind := "quorum"
			if ch.cluster.config.Version >= V4_3 {
				kind = `<<"quorum">>`
			}
			refuse(resourceLocked, "cannot obtain access to locked %s. basic.get operations are not supported by %s queues with "+
				"single active consumer", inVhost(name), kind)
		}
		ch.meet(q)
		ch.call(m, q, func() func() {
			e, redelivered, left := q.get(ch, noAck)
			if e == nil {
				return func() { ch.emit(basicGetEmpty, []byte{0}) }
			}
			h := hand{entry: e, turn: e.turn}
			return func() { ch.got(q, h, redelivered, left, noAck) }
		}, func() { ch.goneInCall(q) })
	})
}

func (ch *channel) got(q *queue, h hand, redelivered bool, left int, noAck bool) {
	ch.tag++
	if !noAck {
		ch.unacked = append(ch.unacked, &delivery{hand: h, tag: ch.tag, queue: q, since: ch.cluster.now})
	}
	var w writer
	w.u64(ch.tag)
	w.flag(redelivered)
	w.short("")
	w.short(h.entry.message.key)
	w.u32(uint32(left))
	if !ch.dead && !ch.closing {
		ch.conn.emit(contentFrames(ch.number, basicGetOK, w.b, h.entry.message, ch.conn.frameMax))
	}
}

// inVhost names a queue as RabbitMQ does.
func inVhost(name string) string { return fmt.Sprintf("queue '%s' in vhost '/'", name) }
