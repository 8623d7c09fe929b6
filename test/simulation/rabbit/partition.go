package rabbit

import (
	"slices"
	"time"
)

// How long it takes until a quorum queue has another leader: where the node of the last one is dead, and where nothing is
// heard from it.
const (
	whenDead   = 200 * time.Millisecond
	whenSilent = 7800 * time.Millisecond
)

// store is the metadata store of 4.3, Khepri, which most nodes have to agree to what is written; on Mnesia each node
// writes what it likes.
type store struct{ waiting []write }

type write struct {
	node     *node
	f        func()
	deadline *event
}

// khepriTimeout is how long a write waits for most nodes.
const khepriTimeout = 30 * time.Second

// write has the node write to the metadata store, and then does f, or failed if it cannot.
func (c *Cluster) write(n *node, f, failed func()) {
	if c.config.Version < V4_3 || c.majority(n) {
		f()
		return
	}
	w := write{node: n, f: f}
	w.deadline = c.at(c.now.Add(khepriTimeout), func() {
		c.metadata.waiting = slices.DeleteFunc(c.metadata.waiting, func(o write) bool { return o.deadline == w.deadline })
		failed()
	})
	c.metadata.waiting = append(c.metadata.waiting, w)
}

// retry does what waited for most nodes.
func (s *store) retry(c *Cluster) {
	var left []write
	for _, w := range s.waiting {
		if !c.majority(w.node) {
			left = append(left, w)
			continue
		}
		w.deadline.stop()
		c.at(c.now, w.f)
	}
	s.waiting = left
}

// majority reports whether the node is up and reaches most nodes that answer.
func (c *Cluster) majority(n *node) bool {
	reached := 0
	for _, other := range c.nodes {
		if other.up && !other.hung && c.linked(n, other) {
			reached++
		}
	}
	return n.up && !n.hung && 2*reached > len(c.nodes)
}

// place gives a quorum queue its leader.
func (c *Cluster) place(q *queue) {
	if locator, _ := q.arguments["x-queue-leader-locator"].v.(string); locator != "balanced" {
		return
	}
	led := map[*node]int{}
	for _, other := range c.allQueues() {
		if other.quorum {
			led[other.node]++
		}
	}
	for _, n := range c.nodes {
		if n.up && !n.hung && c.linked(q.node, n) && led[n] < led[q.node] {
			q.node = n
		}
	}
}

// elect has quorum queues whose leader does not reach most nodes led by another one, after a while.
func (c *Cluster) elect(after time.Duration) {
	c.later(after, func() {
		for _, q := range c.allQueues() {
			if !q.quorum || c.majority(q.node) {
				continue
			}
			if i := slices.IndexFunc(c.nodes, c.majority); i >= 0 {
				c.log("queue %s: node %d leads it", q.name, i)
				q.node = c.nodes[i]
				if c.config.Version < V4_3 { // whose clients do not say again what the last leader has not got done
					q.gated = slices.DeleteFunc(q.gated, func(m note) bool { return !m.call })
				}
				q.suspectAll()
				c.trust()
			}
		}
		c.release()
		c.goOn()
	})
}

// split cuts or joins what nodes reach. Those that are cut off are down for the others after that time.
func (c *Cluster) split(groups [][]int, noticed time.Duration) {
	c.log("nodes reach each other: %v", groups)
	group := func(n *node) int {
		return slices.IndexFunc(groups, func(g []int) bool { return slices.Contains(g, n.id) })
	}
	for _, n := range c.nodes {
		before := n.sees
		n.sees = nil
		for _, other := range c.nodes {
			if n == other || group(n) == group(other) && group(n) >= 0 {
				n.sees = append(n.sees, other)
			} else if slices.Contains(before, other) {
				c.giveUp(n, other, noticed)
			}
		}
	}
	for _, n := range c.nodes {
		for _, other := range n.sees {
			if other.up {
				delete(n.lost, other)
			}
		}
	}
	c.trust()
	c.elect(whenSilent)
	c.release()
	c.goOn()
	c.wake()
}

// patience is how long a channel of 4.0 and later waits for a queue whose node is down.
const patience = time.Minute

// awaitNode has a channel wait until any node is back, and then do again what it could not.
func (ch *channel) awaitNode(m method, q *queue, again func()) {
	c, over := ch.cluster, false
	ch.pause()
	c.later(patience, func() {
		if !over {
			over = true
			ch.resume(func() {
				ch.guard(m, func() { refuse(notFound, "failed to perform operation on %s due to timeout", inVhost(q.name)) })
			})
		}
	})
	c.patient = append(c.patient, func() {
		if !over {
			over = true
			ch.resume(func() { ch.guard(m, again) })
		}
	})
}

// wake has channels that wait for a node try again.
func (c *Cluster) wake() {
	patient := c.patient
	c.patient = nil
	for _, f := range patient {
		c.at(c.now, f)
	}
}

// giveUp has a node take another one for down, once it has not reached that for long enough.
func (c *Cluster) giveUp(n, other *node, after time.Duration) {
	c.later(after, func() {
		if n.up && !c.linked(n, other) {
			n.nodeDown(other)
		}
	})
}

// nodeDown is told that another node is down, or seems so.
func (n *node) nodeDown(other *node) {
	c := n.cluster
	c.log("node %d: takes node %d for down", n.id, other.id)
	c.held = slices.DeleteFunc(c.held, func(h held) bool { return h.from == n && h.to == other || h.from == other && h.to == n })
	n.lost[other] = true
	c.bounce(n, other)
	if c.config.Version < V4_3 {
		n.forget(other)
	}
	n.orphan(other)
	c.suspect(n, other)
	c.elect(whenDead)
}

// forget has a node on Mnesia forget the queues of another one: what is durable is away, the rest is gone.
func (n *node) forget(other *node) {
	c := n.cluster
	if !c.linked(n, other) || !other.up { // it has a book of its own from now on, with whom it sees
		shared := n.book.clone()
		for _, with := range c.nodes {
			if with != other && with.book == n.book && c.linked(n, with) && with != n {
				with.book = shared
			}
		}
		n.book = shared
	}
	for name, q := range n.book.live {
		if q.node != other || q.quorum || q.durable && c.config.Version >= V4_0 {
			continue
		}
		delete(n.book.live, name)
		if q.durable {
			n.book.away[name] = q
		}
	}
}

// orphan tells the node's channels that the classic queues of another node are out of reach.
func (n *node) orphan(other *node) {
	for _, o := range n.cluster.allConnections() {
		for _, number := range o.numbers {
			ch := o.channels[number]
			for _, q := range ch.watched {
				if o.node == n && q.node == other && !q.quorum {
					n.cluster.at(n.cluster.now, func() { ch.receive(note{f: func() { ch.queueDown(q, false) }}) })
				}
			}
		}
	}
}

// suspect has the queues of a node take back what channels on another one have.
func (c *Cluster) suspect(n, other *node) {
	for _, q := range c.allQueues() {
		if q.node != n || q.dead || q.quorum && !c.majority(n) {
			continue
		}
		for _, ch := range slices.Clone(q.watchers) {
			switch {
			case ch.node != other:
			case q.quorum:
				q.suspect(ch)
			default:
				q.after(0, func() { q.channelDown(ch) })
			}
		}
	}
}

// suspectAll has a queue that has another leader do so with all channels that this does not reach.
func (q *queue) suspectAll() {
	for _, ch := range slices.Clone(q.watchers) {
		if !ch.node.up || ch.node.hung || !q.cluster.linked(q.node, ch.node) {
			q.suspect(ch)
		}
	}
}

// suspect gives nothing more to a channel whose node is away, and takes back what it has once that has lasted.
func (q *queue) suspect(ch *channel) {
	q.doubt(ch, true)
	q.after(q.limits.absence, func() {
		if !ch.node.up || !q.cluster.linked(q.node, ch.node) || ch.node.hung {
			q.takeBack(ch)
		}
	})
}

// doubt says whether a channel's node is away.
func (q *queue) doubt(ch *channel, away bool) {
	for _, c := range q.all {
		if c.channel == ch {
			c.suspect = away
		}
	}
	q.activate()
	q.goOn()
}

// trust has quorum queues serve channels again whose node is back.
func (c *Cluster) trust() {
	for _, q := range c.allQueues() {
		if !q.quorum {
			continue
		}
		for _, ch := range slices.Clone(q.watchers) {
			switch {
			case !ch.node.up || ch.node.hung || !c.linked(q.node, ch.node) || !c.majority(q.node):
			case ch.dead:
				q.channelDown(ch)
			default:
				q.doubt(ch, false)
			}
		}
	}
}

// release lets go what waited between nodes.
func (c *Cluster) release() {
	var left []held
	for _, h := range c.held {
		if c.linked(h.from, h.to) {
			c.at(c.now, h.deliver)
		} else {
			left = append(left, h)
		}
	}
	c.held = left
}

// sweep has the metadata store of 4.3 forget queues that are not durable and have no process, on nodes that are back:
// rabbit_amqqueue:on_node_up.
func (c *Cluster) sweep() {
	for _, q := range c.allQueues() {
		if c.config.Version >= V4_3 && q.dead && !q.durable && c.majority(q.node) {
			c.strike(q)
		}
	}
}

// goOn has quorum queues and the metadata store do what waited for most nodes.
func (c *Cluster) goOn() {
	c.metadata.retry(c)
	c.sweep()
	for _, q := range c.allQueues() {
		if q.quorum && c.majority(q.node) {
			gated := q.gated
			q.gated = nil
			for _, m := range gated {
				c.at(c.now, func() { q.receive(m) })
			}
		}
	}
}

// join gives a node that starts the book of those that it sees.
func (n *node) join() {
	for _, other := range n.cluster.nodes {
		if other != n && other.up && n.cluster.linked(n, other) {
			n.book = other.book
			return
		}
	}
}

// nodeUp is told that a node is back.
func (c *Cluster) nodeUp(n *node) {
	for _, other := range c.nodes {
		if c.linked(other, n) {
			delete(other.lost, n)
		}
	}
	c.wake()
	c.trust()
	c.release()
	c.goOn()
}
