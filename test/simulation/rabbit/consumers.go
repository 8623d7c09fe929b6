package rabbit

import (
	"slices"
	"time"
)

// admit takes a consumer, or says why not.
func (q *queue) admit(c *consumer) *refusal {
	inUse := &refusal{code: accessRefused, text: inVhost(q.name) + " in exclusive use"}
	switch {
	case q.quorum: // which knows no exclusive consumer
	case q.exclusive != nil, c.exclusive && q.consumed():
		return inUse
	case c.exclusive && q.single:
		return inUse
	}
	q.use()
	q.watch(c.channel)
	q.used = true
	if c.exclusive && !q.quorum {
		q.exclusive = c
	}
	q.lineUp(c)
	q.all = append(q.all, c)
	q.activate()
	q.cluster.at(q.cluster.now, func() { q.receive(note{f: q.begin}) })
	return nil
}

// begin serves a consumer that has just come.
func (q *queue) begin() {
	q.expire()
	q.serve()
	q.expire()
}

// activate finds the consumer that is the single active one.
func (q *queue) activate() {
	if !q.single || q.active != nil && !q.active.suspect {
		return
	}
	i := slices.IndexFunc(q.consumers, func(c *consumer) bool { return !c.suspect })
	q.active = nil
	if i >= 0 {
		q.active = q.consumers[i]
	}
}

// cancel ends a consumer. What it has in hand stays there.
func (q *queue) cancel(c *consumer) {
	q.remove(c)
	if q.autoDelete && !q.consumed() {
		q.delete("nobody consumes from it")
		return
	}
	q.goOn()
}

func (q *queue) remove(c *consumer) {
	is := func(other *consumer) bool { return other == c }
	q.consumers = slices.DeleteFunc(q.consumers, is)
	q.full = slices.DeleteFunc(q.full, is)
	q.all = slices.DeleteFunc(q.all, is)
	if q.exclusive == c {
		q.exclusive = nil
	}
	if q.active == c {
		q.active = nil
	}
	q.activate()
	if !q.consumed() {
		q.use()
	}
}

// channelDown is told that a channel is no more: what it had is put back in one step with letting others in.
func (q *queue) channelDown(ch *channel) {
	consumed := false
	for _, c := range slices.Concat(q.consumers, q.full) {
		if c.channel == ch {
			q.remove(c)
			consumed = true
		}
	}
	q.watchers = slices.DeleteFunc(q.watchers, func(w *channel) bool { return w == ch })
	if consumed && q.autoDelete && !q.consumed() {
		q.delete("nobody consumes from it")
		return
	}
	q.takeBack(ch)
}

// takeBack puts back what a channel has.
func (q *queue) takeBack(ch *channel) {
	var theirs []*entry
	for _, e := range q.inHand {
		if e.holder == ch {
			theirs = append(theirs, e)
		}
	}
	q.release(theirs)
	for _, e := range theirs {
		e.failed++
	}
	q.putBack(theirs, false)
	q.goOn()
}

// absentees counts who has messages of a quorum queue in hand without being a consumer.
func (q *queue) absentees() (n int) {
	if !q.quorum {
		return 0
	}
	seen := map[*consumer]bool{nil: false}
	for _, e := range q.inHand {
		switch {
		case e.consumer == nil: // each basic.get is one
			n++
		case !seen[e.consumer] && !slices.Contains(q.all, e.consumer):
			seen[e.consumer] = true
			n++
		}
	}
	return n
}

// timeoutTick is how often a quorum queue of 4.3 looks for what is in a hand for too long.
const timeoutTick = 5 * time.Second

// watchTimeouts ends consumers that have a message in hand for too long.
func (q *queue) watchTimeouts() {
	if !q.quorum || q.cluster.config.Version < V4_3 {
		return
	}
	q.after(timeoutTick, func() {
		for _, c := range slices.Concat(q.consumers, q.full) {
			if q.late(c) {
				q.end(c)
			}
		}
		q.watchTimeouts()
	})
}

// late reports whether the consumer has a message for too long.
func (q *queue) late(c *consumer) bool {
	limit := c.timeout
	if limit == 0 {
		limit = q.limits.timeout
	}
	if limit == 0 {
		limit = q.cluster.config.ConsumerTimeout
	}
	return slices.ContainsFunc(q.inHand, func(e *entry) bool {
		return e.consumer == c && q.cluster.now.Sub(e.given) > limit
	})
}

// end ends a consumer that the client has not cancelled, and puts back what it has.
func (q *queue) end(c *consumer) {
	q.remove(c)
	q.tell(&c.channel.process, func() {
		if c.channel.consumers[c.tag] == c {
			c.channel.dropConsumer(c)
		}
	})
	var theirs []*entry
	for _, e := range q.inHand {
		if e.consumer == c {
			theirs = append(theirs, e)
		}
	}
	q.release(theirs)
	q.putBack(theirs, false)
	q.goOn()
}
