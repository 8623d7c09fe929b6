package rabbit

import "time"

// channel is the process of a channel.
type channel struct {
	process
	conn    *connection
	number  uint16
	opened  bool
	closing bool // we have sent channel.close, or are about to

	pending *publication // a message of which something is missing
	doing   method       // the last one
	again   func()       // does it again

	confirming  bool
	tx          *transaction
	sequence    uint64 // of the last message that was published, where they are confirmed
	unconfirmed map[uint64]*queue
	confirmed   []uint64 // and not said yet
	rejected    []uint64 // and not said yet

	unacked   []*delivery // in the order of their tags
	tag       uint64      // of the last delivery
	prefetch  int
	timeout   time.Duration // for acknowledgements, before 4.3
	consumers map[string]*consumer
	watched   []*queue // that hear of the channel's end, in the order in which they were met
	recent    string   // the queue that was declared last

	replyTag, replyQueue string // of direct reply-to; "": none
}

// delivery is a message that the client has and has not acknowledged.
type delivery struct {
	hand
	tag   uint64
	queue *queue
	since time.Time
}

func newChannel(o *connection, number uint16) *channel {
	ch := &channel{process: o.cluster.newProcess(o.node), conn: o, number: number, unconfirmed: map[uint64]*queue{},
		consumers: map[string]*consumer{}, timeout: o.cluster.config.ConsumerTimeout}
	ch.tick()
	return ch
}

// reply sends a method to the client.
func (ch *channel) emit(m method, arguments []byte) {
	if !ch.dead && !ch.closing {
		ch.conn.emit(methodFrame(ch.number, m, arguments))
	}
}

// frame handles a frame of the client.
func (ch *channel) frame(f frame) {
	m := methodIn(f)
	switch {
	case ch.closing && m == channelCloseOK:
		ch.end()
		return
	case ch.closing && m == channelClose:
		ch.conn.emit(methodFrame(ch.number, channelCloseOK, nil))
		ch.conn.forget(ch)
		ch.end()
		return
	case ch.closing:
		return
	}
	ch.guard(m, func() {
		switch f.kind {
		case frameMethod:
			ch.method(m, &reader{b: f.payload[4:]})
		case frameHeader:
			ch.header(f.payload)
		case frameBody:
			ch.body(f.payload)
		default:
			refuse(frameError, "type %d", f.kind)
		}
	})
}

// guard does something for a method of the client, which may be refused.
func (ch *channel) guard(m method, f func()) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *refusal:
			r.of = m
			ch.refused(r)
		default:
			panic(r)
		}
	}()
	f()
}

// refused closes the channel, or the connection.
func (ch *channel) refused(r *refusal) {
	ch.cluster.log("connection %d (%s) channel %d: %d %s", ch.conn.id, ch.conn.name, ch.number, r.code, r.text)
	if !r.hard() && ch.cluster.spoils(r) {
		r = &refusal{code: internalError, blunt: true}
	}
	ch.closing = true
	if r.hard() {
		ch.tell(&ch.conn.process, func() { ch.conn.fail(r) })
		return
	}
	ch.leave(func() { ch.conn.emit(r.frame(ch.number)) })
}

// call asks a queue on behalf of a method of the client. The answer may be refused as well.
func (ch *channel) call(m method, q *queue, f func() (then func()), gone func()) {
	guarded := func(then func()) func() { return func() { ch.guard(m, then) } }
	ch.ask(&q.process, func() func() { return guarded(f()) }, guarded(gone))
}

// leave has the queues that the channel consumes from take back what it has, one after the other, and then does the
// rest.
func (ch *channel) leave(then func()) { ch.leaveFrom(ch.watched, then) }

func (ch *channel) leaveFrom(queues []*queue, then func()) {
	for len(queues) > 0 && (queues[0].dead || queues[0].quorum || !ch.consumesFrom(queues[0])) {
		queues = queues[1:]
	}
	if len(queues) == 0 {
		ch.consumers = map[string]*consumer{}
		then()
		return
	}
	q, next := queues[0], func() { ch.leaveFrom(queues[1:], then) }
	ch.ask(&q.process, func() func() {
		q.channelDown(ch)
		return next
	}, next)
}

func (ch *channel) consumesFrom(q *queue) bool {
	for _, c := range ch.consumers {
		if c.queue == q {
			return true
		}
	}
	return false
}

// end ends the process, which all queues hear of.
func (ch *channel) end() {
	if ch.dead {
		return
	}
	for _, q := range ch.watched {
		ch.tell(&q.process, func() { q.channelDown(ch) })
	}
	delete(ch.cluster.replies, ch.replyQueue)
	ch.die()
}

// meet has a queue hear of the channel's end.
func (ch *channel) meet(q *queue) {
	for _, known := range ch.watched {
		if known == q {
			return
		}
	}
	ch.watched = append(ch.watched, q)
}

// handlers are what is done for each method. They lead to themselves, so init fills the table.
var handlers map[method]func(*channel, method, *reader)

func init() {
	handlers = map[method]func(*channel, method, *reader){
		channelOpen: (*channel).open, channelClose: (*channel).close, channelFlow: (*channel).flow,
		queueDeclare: (*channel).declare, queueDelete: (*channel).deleteQueue, queuePurge: (*channel).purge,
		basicQos: (*channel).qos, basicConsume: (*channel).consume, basicCancel: (*channel).cancel, basicGet: (*channel).get,
		basicPublish: (*channel).publish, basicAck: (*channel).ack, basicReject: (*channel).reject, basicNack: (*channel).nack,
		confirmSelect: (*channel).selectConfirms, txSelect: (*channel).selectTx, txCommit: (*channel).commit,
		txRollback: (*channel).rollback,
	}
}

// method handles a method.
func (ch *channel) method(m method, r *reader) {
	if ch.pending != nil {
		refuse(unexpectedFrame, "expected content header for class 60, got method frame instead")
	}
	handle := handlers[m]
	switch {
	case handle == nil:
		ch.cluster.log("method %d.%d is not simulated", m.class(), m.number())
		ch.tell(&ch.conn.process, ch.conn.finish)
		return
	case !ch.opened && m != channelOpen:
		refuse(channelError, "expected 'channel.open'")
	case ch.tx != nil && ch.tx.committing:
		refuse(channelError, "unexpected command while processing 'tx.commit'")
	}
	arguments := r.b
	ch.again = func() { handle(ch, m, &reader{b: arguments}) }
	ch.doing = m
	handle(ch, m, r)
}

func (ch *channel) open(_ method, r *reader) {
	if ch.opened {
		refuse(channelError, "second 'channel.open' seen")
	}
	ch.opened = true
	var w writer
	w.long("")
	ch.emit(channelOpenOK, w.b)
}

func (ch *channel) flow(_ method, r *reader) {
	if r.u8() == 0 {
		refuse(notImplemented, "active=false")
	}
	ch.emit(channelFlowOK, []byte{1})
}

func (ch *channel) close(method, *reader) {
	ch.leave(func() {
		ch.emit(channelCloseOK, nil)
		ch.conn.forget(ch)
		ch.end()
	})
}

func (ch *channel) qos(_ method, r *reader) {
	size, count, global := r.u32(), r.u16(), r.bits()[0]
	switch {
	case size != 0:
		refuse(notImplemented, "prefetch_size!=0 (%d)", size)
	case global && count != 0:
		refuse(notImplemented, "a prefetch for all consumers is not simulated")
	}
	ch.prefetch = int(count)
	ch.emit(basicQosOK, nil)
}
