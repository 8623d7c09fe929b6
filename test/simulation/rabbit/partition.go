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
				q.limit()
			}
		}
		c.release()
		c.goOn()
	})
}

// split cuts or joins what nodes reach.
func (c *Cluster) split(groups [][]int) {
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
				c.giveUp(n, other)
			}
		}
	}
	c.elect(whenSilent)
	c.release()
	c.goOn()
}

// giveUp has a node take another one for down, once it has not reached that for long enough.
func (c *Cluster) giveUp(n, other *node) {
	c.later(c.config.NetTick, func() {
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
	c.bounce(n, other)
	if c.config.Version < V4_3 {
		n.forget(other)
	} else if !other.up {
		n.shelve(other)
	}
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
	n.shelve(other)
	for name, q := range n.book.away {
		if !q.durable {
			delete(n.book.away, name)
		}
	}
}

// shelve puts the classic queues of a node away, and tells channels that they are gone.
func (n *node) shelve(other *node) {
	c := n.cluster
	for _, q := range c.allQueues() {
		if q.node != other || q.quorum || n.book.live[q.name] != q {
			continue
		}
		delete(n.book.live, q.name)
		n.book.away[q.name] = q
		for _, ch := range q.watchers {
			if ch.node == n {
				c.at(c.now, func() { ch.receive(note{f: func() { ch.queueDown(q, false) }}) })
			}
		}
	}
}

// suspect has the queues of a node take back what channels on another one have: classic ones at once.
func (c *Cluster) suspect(n, other *node) {
	for _, q := range c.allQueues() {
		if q.node != n {
			continue
		}
		for _, ch := range slices.Clone(q.watchers) {
			switch {
			case ch.node != other:
			case q.quorum:
				q.suspect(ch)
			default:
				c.at(c.now, func() { q.receive(note{f: func() { q.channelDown(ch) }}) })
			}
		}
	}
}

// suspect takes back what a channel has whose node is away, once that has lasted.
func (q *queue) suspect(ch *channel) {
	wait := time.Duration(0)
	if q.cluster.config.Version >= V4_3 {
		wait = time.Minute
		if v, ok := q.arguments["x-consumer-disconnected-timeout"].v.(int64); ok {
			wait = time.Duration(v) * time.Millisecond
		}
	}
	q.after(wait, func() {
		if ch.dead || !q.cluster.linked(q.node, ch.node) || ch.node.hung {
			q.channelDown(ch)
		}
	})
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

// goOn has quorum queues and the metadata store do what waited for most nodes.
func (c *Cluster) goOn() {
	c.metadata.retry(c)
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
	for _, q := range c.allQueues() {
		if !q.quorum {
			continue
		}
		for _, ch := range slices.Clone(q.watchers) {
			if ch.dead && ch.node == n {
				q.after(0, func() { q.channelDown(ch) })
			}
		}
	}
	c.release()
	c.goOn()
}
