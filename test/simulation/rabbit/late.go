package rabbit

import (
	"cmp"
	"slices"
	"time"
)

// consumerTimeout is how long a delivery may stay unacknowledged, and tickInterval how often a channel looks for those that
// are too old, unless something is said.
const (
	consumerTimeout = 30 * time.Minute
	tickInterval    = time.Minute
)

// tick closes the channel if a delivery is too old. From 4.3 on it is a quorum queue that does so, see watchTimeout.
func (ch *channel) tick() {
	if ch.cluster.config.Version >= V4_3 {
		return
	}
	ch.after(ch.cluster.tick, func() {
		if !ch.closing && len(ch.unacked) > 0 {
			oldest := ch.unacked[0]
			if limit := ch.limit(oldest); ch.cluster.now.Sub(oldest.since) > limit {
				ch.guard(0, func() { ch.refuseLate(limit.Milliseconds()) })
			}
		}
		ch.tick()
	})
}

// limit is how long the delivery may stay unacknowledged. Since 3.12 queues have a say in it.
func (ch *channel) limit(d *delivery) time.Duration {
	if ch.cluster.config.Version >= V4_0 && d.queue.limits.timeout > 0 && ch.node.book.live[d.queue.name] != nil {
		return d.queue.limits.timeout
	}
	return ch.timeout
}

func (ch *channel) refuseLate(ms int64) {
	refuse(preconditionFailed, "delivery acknowledgement on channel %d timed out. Timeout value used: %d ms. "+
		"This timeout value can be configured, see consumers doc guide to learn more", ch.number, ms)
}

// watchTimeout has a quorum queue of 4.3 notice if that message is in a hand for too long.
func (q *queue) watchTimeout(e *entry) {
	if !q.quorum || q.cluster.config.Version < V4_3 {
		return
	}
	limit := cmp.Or(q.limits.timeout, q.cluster.config.ConsumerTimeout)
	if e.consumer != nil {
		limit = e.consumer.timeout
	}
	e.due = q.cluster.now.Add(limit)
	if q.lateness == nil || e.due.Before(q.lateness.at) {
		q.lateness.stop()
		q.lateness = q.after(limit, q.endLate)
	}
}

// endLate puts back what is in a hand for too long. A consumer that had it is cancelled, as far as its client is told, but
// is served again once that has settled what was too late.
func (q *queue) endLate() {
	q.lateness = nil
	var late []*entry
	for _, e := range q.inHand {
		if !e.due.IsZero() && !e.due.After(q.cluster.now) {
			late = append(late, e)
		}
	}
	told := map[*consumer]bool{nil: false}
	for _, e := range late {
		c, ch := e.consumer, e.holder
		if c != nil {
			c.late = append(c.late, hand{e, c, e.turn})
		}
		if !told[c] {
			told[c] = c != nil
			q.tell(&ch.process, func() { ch.tooLate(c) })
		}
	}
	q.release(late)
	q.putBack(late, requeued, false)
	q.goOn()
	for _, e := range q.inHand {
		if !e.due.IsZero() && (q.lateness == nil || e.due.Before(q.lateness.at)) {
			q.lateness.stop()
			q.lateness = q.after(e.due.Sub(q.cluster.now), q.endLate)
		}
	}
}

// tooLate is told that something was in the consumer's hand for too long; nil: it was got.
func (ch *channel) tooLate(c *consumer) {
	if wants, _ := ch.conn.capabilities["consumer_cancel_notify"].v.(bool); wants && c != nil && ch.consumers[c.tag] == c {
		ch.emitCancel(c)
		return
	}
	if !ch.closing {
		ch.guard(0, func() { ch.refuseLate(-1) })
	}
}

// forgive is told that the client has settled what was too late.
func (c *consumer) forgive(h hand) {
	c.late = slices.DeleteFunc(c.late, func(l hand) bool { return l == h })
}

// outOfTurn reports whether a single active consumer has lost its turn: it was too late, and has nothing left.
func (c *consumer) outOfTurn() bool { return len(c.late) > 0 && c.inHand == 0 }

// outOfTurn counts them.
func (q *queue) outOfTurn() (n int) {
	for _, c := range slices.Concat(q.consumers, q.full) {
		if c.outOfTurn() {
			n++
		}
	}
	return n
}

// delays reports whether what is put back so comes again only later.
func (l limits) delays(o outcome) bool {
	return l.delayed == "all" || l.delayed == "failed" && o == failed || l.delayed == "returned" && o == requeued
}

// putBackLater has a message come again after a while: longer, the more often it has failed.
func (q *queue) putBackLater(e *entry) {
	delay := min(q.limits.delay*time.Duration(max(1, e.failed)), q.limits.maxDelay)
	e.until = q.cluster.now.Add(delay)
	q.delayed = append(q.delayed, e)
	q.watchDelayed()
}

// watchDelayed has messages come again whose time has come.
func (q *queue) watchDelayed() {
	q.retry.stop()
	q.retry = nil
	slices.SortFunc(q.delayed, func(a, b *entry) int {
		return cmp.Or(a.until.Compare(b.until), cmp.Compare(a.number, b.number))
	})
	for len(q.delayed) > 0 && !q.delayed[0].until.After(q.cluster.now) {
		q.returned = append(q.returned, q.delayed[0])
		q.delayed = q.delayed[1:]
	}
	if len(q.delayed) > 0 {
		q.retry = q.after(q.delayed[0].until.Sub(q.cluster.now), func() {
			q.watchDelayed()
			q.goOn()
		})
	}
}
