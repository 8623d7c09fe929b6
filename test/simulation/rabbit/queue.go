package rabbit

import (
	"slices"
	"time"
)

// queue is the process of a queue. A quorum queue is one process too, which moves to another node where its own is lost.
type queue struct {
	process
	name       string
	quorum     bool
	durable    bool
	autoDelete bool
	owner      *connection // that it is exclusive to; nil: everybody's
	arguments  table
	limits     limits
	single     bool // active consumer

	ready    []*entry // in the order in which they were published
	returned []*entry // of a quorum queue: what was put back, which comes first
	inHand   []*entry // in the order in which they were handed out
	delayed  []*entry // of a quorum queue: what was put back and is to come again only later
	number   uint64   // of the last message

	consumers []*consumer // that take messages, by priority, and who is next first
	full      []*consumer // that do not, because they have as many in hand as they want
	all       []*consumer // that ever were and are not cancelled, for the end
	exclusive *consumer
	active    *consumer // of those, where there is a single one
	watchers  []*channel
	enqueuers map[*channel]bool // of a quorum queue: channels that have published; true: what else they publish is refused
	refuses   bool              // something of some of them

	expiry, idle, lateness, retry *event
	used                          bool // somebody has consumed from it
}

// entry is a message in a queue.
type entry struct {
	message  *message
	number   uint64
	came     int       // back, so often
	failed   int       // so often not by basic.nack
	stored   bool      // on disk
	expires  time.Time // zero: never
	holder   *channel  // nil: it is ready
	consumer *consumer // that has it; nil: it was got
	last     *consumer // that had it
	turn     int       // how often it was handed out
	due      time.Time // when it is in that hand for too long; zero: never
	until    time.Time // when it comes again, where that is later
}

// hand is one of the times that a message was handed out.
type hand struct {
	entry    *entry
	consumer *consumer // nil: it was got
	turn     int
}

func (c *Cluster) newQueue(ch *channel, d *declaration, kind string) *queue {
	q := &queue{process: c.newProcess(ch.node), name: d.name, quorum: kind == "quorum", durable: d.durable,
		autoDelete: d.autoDelete, arguments: d.arguments}
	if d.exclusive {
		q.owner = ch.conn
	}
	if q.quorum {
		c.place(q)
		q.gate = func() bool { return c.majority(q.node) }
	}
	q.limit()
	c.enlist(ch.node, q)
	q.use()
	return q
}

// stat returns what queue.declare-ok says.
func (q *queue) stat() (messages, consumers int) {
	q.use()
	consumers = len(q.consumers) + len(q.full)
	if q.single && q.quorum { // who waits does not count
		consumers -= q.outOfTurn()
		consumers = min(consumers, 1)
	}
	return len(q.ready) + len(q.returned), consumers + q.absentees()
}

// use has the time begin again after which the queue goes where nobody uses it.
func (q *queue) use() {
	q.idle.stop()
	q.idle = nil
	if q.limits.expires > 0 {
		q.idle = q.after(q.limits.expires, func() {
			if !q.consumed() {
				q.delete("nobody has used it")
			}
		})
	}
}

// publish takes a message.
func (q *queue) publish(p *publication, from *channel) {
	q.watch(from)
	settle := func(taken bool) {
		if p.sequence > 0 {
			q.tell(&from.process, func() { from.unconfirm(p.sequence, q, taken) })
		}
	}
	if q.rejects(from) {
		settle(false)
		return
	}
	q.number++
	e := &entry{message: p.message, number: q.number, stored: p.sequence > 0}
	q.setExpiry(e)
	q.ready = append(q.ready, e)
	q.serve()
	q.dropHead()
	q.expire()
	q.refuseMore()
	settle(true)
}

func (q *queue) setExpiry(e *entry) {
	d, limited := e.message.expiry()
	if q.limits.ttl >= 0 && (!limited || q.limits.ttl < d) {
		d, limited = q.limits.ttl, true
	}
	if limited {
		e.expires = q.cluster.now.Add(d)
	}
}

// dropHead drops the oldest, where there are too many.
func (q *queue) dropHead() {
	for !q.limits.rejects && q.tooLong() && q.head() != nil {
		q.take()
	}
}

// length is how many messages count for a limit.
func (q *queue) length() int { return len(q.ready) + len(q.returned) + len(q.delayed) }

// head returns the message that is next, nil if there is none.
func (q *queue) head() *entry {
	switch {
	case len(q.returned) > 0:
		return q.returned[0]
	case len(q.ready) > 0:
		return q.ready[0]
	}
	return nil
}

// take takes the head.
func (q *queue) take() {
	if len(q.returned) > 0 {
		q.returned = q.returned[1:]
	} else {
		q.ready = q.ready[1:]
	}
	q.refuseNoMore()
}

// expire drops what has expired, as far as it has come to the head, and looks again when the head does.
func (q *queue) expire() {
	q.expiry.stop()
	q.expiry = nil
	for e := q.head(); e != nil && !e.expires.IsZero(); e = q.head() {
		if left := e.expires.Sub(q.cluster.now); left > 0 {
			q.expiry = q.after(left, q.expire)
			return
		}
		q.take()
	}
}

// serve hands out messages for as long as there is somebody who takes them.
func (q *queue) serve() {
	for e := q.head(); e != nil; e = q.head() {
		i := slices.IndexFunc(q.consumers, func(c *consumer) bool { return !q.single || c == q.active })
		if i < 0 {
			return
		}
		c := q.consumers[i]
		q.consumers = slices.Delete(q.consumers, i, i+1)
		if q.isFull(c) { // which is seen only now
			q.full = append(q.full, c)
			continue
		}
		q.take()
		q.lineUp(c)
		q.give(e, c)
	}
}

// isFull reports whether a consumer has as much in hand as it wants.
func (q *queue) isFull(c *consumer) bool {
	const maxOnTheWay = 2000 // of a quorum queue, to a consumer that sets no limit
	most := c.prefetch
	if q.quorum && most == 0 {
		most = maxOnTheWay
	}
	return !c.noAck && most > 0 && c.inHand >= most+c.bonus || c.suspect || len(c.late) > 0
}

// lineUp has a consumer wait behind all others of its priority.
func (q *queue) lineUp(c *consumer) {
	i := len(q.consumers)
	for i > 0 && q.consumers[i-1].priority < c.priority {
		i--
	}
	q.consumers = slices.Insert(q.consumers, i, c)
}

// consumed reports whether anybody consumes from the queue.
func (q *queue) consumed() bool { return len(q.consumers)+len(q.full) > 0 }

func (q *queue) give(e *entry, c *consumer) {
	redelivered := e.came > 0
	if !c.noAck {
		c.inHand++
		q.handOut(e, c.channel, c)
	}
	h := hand{e, c, e.turn}
	q.tell(&c.channel.process, func() { c.channel.deliver(h, redelivered) })
}

// handOut has a message be in the hand of a channel.
func (q *queue) handOut(e *entry, ch *channel, c *consumer) {
	e.holder, e.consumer = ch, c
	e.turn++
	q.inHand = append(q.inHand, e)
	q.watchTimeout(e)
}

// get hands out one message to basic.get, and says how many are left.
func (q *queue) get(ch *channel, noAck bool) (e *entry, redelivered bool, left int) {
	q.use()
	q.watch(ch)
	if e = q.head(); e == nil {
		return nil, false, 0
	}
	q.take()
	redelivered = e.came > 0
	if !noAck {
		q.handOut(e, ch, nil)
	}
	q.expire()
	return e, redelivered, len(q.ready) + len(q.returned)
}

// settle is told what becomes of messages that a channel had.
func (q *queue) settle(ch *channel, o outcome, hands []hand) {
	var theirs []*entry
	for _, h := range hands {
		if h.entry.holder == ch && h.entry.turn == h.turn {
			theirs = append(theirs, h.entry)
		} else if h.consumer != nil {
			h.consumer.forgive(h)
		}
	}
	q.release(theirs)
	if o == requeued || o == failed {
		q.putBack(theirs, o, q.cluster.config.Version < V4_3 && q.limits.returns < 0)
	}
	q.goOn()
}

// goOn serves those who can take messages again.
func (q *queue) goOn() {
	var still []*consumer
	for _, c := range q.full {
		if q.isFull(c) {
			still = append(still, c)
		} else {
			q.lineUp(c)
		}
	}
	q.full = still
	q.activate()
	q.expire()
	q.serve()
	q.expire()
}

// release takes messages out of hands.
func (q *queue) release(entries []*entry) {
	for _, e := range entries {
		if e.consumer != nil {
			e.consumer.inHand--
		}
		e.holder, e.consumer, e.last, e.due = nil, nil, e.consumer, time.Time{}
	}
	q.inHand = slices.DeleteFunc(q.inHand, func(e *entry) bool { return e.holder == nil })
}

// putBack puts messages back: to their old places, or, in a quorum queue, before all others. Where anew, and nothing
// limits how often they come back, a quorum queue takes them for new ones: they come after all others.
func (q *queue) putBack(entries []*entry, o outcome, anew bool) {
	for _, e := range entries {
		e.came++
		if o == failed {
			e.failed++
		}
		switch {
		case q.quorum && q.limits.returns >= 0 && int64(q.counted(e)) > q.limits.returns:
			if q.cluster.config.Version < V4_0 && e.last != nil {
				e.last.bonus++ // 3.10 counts it as returned and as settled
			}
			continue
		case q.limits.delays(o):
			q.putBackLater(e)
			continue
		case q.quorum && anew:
			q.number++
			e.number = q.number
		case q.quorum:
			q.returned = append(q.returned, e)
			continue
		}
		i, _ := slices.BinarySearchFunc(q.ready, e.number, func(r *entry, n uint64) int { return int(r.number) - int(n) })
		q.ready = slices.Insert(q.ready, i, e)
	}
	q.dropHead()
}

// counted is how often a message has come back, as far as that is limited: from 4.3 on basic.nack does not count.
func (q *queue) counted(e *entry) int {
	if q.cluster.config.Version >= V4_3 {
		return e.failed
	}
	return e.came
}

// purge drops what is ready, and says how much that was.
func (q *queue) purge() int {
	n := q.length()
	q.ready, q.returned, q.delayed = nil, nil, nil
	q.refuseNoMore()
	return n
}

// watch has a channel hear of the queue's end.
func (q *queue) watch(ch *channel) {
	if slices.Contains(q.watchers, ch) {
		return
	}
	q.watchers = append(q.watchers, ch)
	if ch.dead { // which one that begins to watch a process that is no more hears at once
		q.soon(func() { q.channelDown(ch) })
	}
}

// delete deletes the queue. Where the metadata store does not answer, it is tried again and again, and until then the queue
// is known, without a process: terminate_delete in rabbit_amqqueue_process.erl.
func (q *queue) delete(why string) {
	if q.dead {
		return
	}
	q.cluster.log("queue %s: deleted, %s", q.name, why)
	q.stop(true)
	q.erase()
}

func (q *queue) erase() { q.cluster.write(q.node, func() { q.cluster.strike(q) }, q.erase) }

// deleteOnce deletes the queue for somebody who wants to know how that ends, and does erased, or failed.
func (q *queue) deleteOnce(why string, erased, failed func()) {
	q.cluster.log("queue %s: deleted, %s", q.name, why)
	q.stop(true)
	q.cluster.write(q.node, func() {
		q.cluster.strike(q)
		erased()
	}, failed)
}

// stop ends the process. deleted says that the queue is no more.
func (q *queue) stop(deleted bool) {
	for _, ch := range q.watchers {
		q.tell(&ch.process, func() { ch.queueDown(q, deleted) })
	}
	for _, e := range []*event{q.idle, q.expiry, q.lateness, q.retry} {
		e.stop()
	}
	q.die()
}
