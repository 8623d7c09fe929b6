package rabbit

import (
	"cmp"
	"slices"
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
	if c.timeout == 0 {
		c.timeout = cmp.Or(q.limits.timeout, q.cluster.config.ConsumerTimeout)
	}
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
	if !q.single || q.active != nil && !q.active.suspect && !q.active.outOfTurn() {
		return
	}
	i := slices.IndexFunc(q.consumers, func(c *consumer) bool { return !c.suspect && len(c.late) == 0 })
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
	delete(q.enqueuers, ch)
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
	q.putBack(theirs, failed, false)
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
