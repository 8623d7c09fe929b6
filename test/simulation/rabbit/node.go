package rabbit

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// node is one node of a cluster.
type node struct {
	cluster *Cluster
	id      int
	up      bool
	hung    bool
	frozen  []func()       // what happens once it does not hang any more
	sees    []*node        // those that it can reach, and itself
	lost    map[*node]bool // those that it takes for down
	book    *book          // of the queues, as it knows them
	disk    []saved
}

// book is what nodes that hear of each other know of queues.
type book struct {
	live map[string]*queue
	away map[string]*queue // whose node is down
}

func newBook() *book { return &book{map[string]*queue{}, map[string]*queue{}} }

func (b *book) clone() *book { return &book{maps.Clone(b.live), maps.Clone(b.away)} }

// saved is a queue on disk.
type saved struct {
	queue   *queue
	entries []*entry
}

// held is a message between two nodes that do not see each other.
type held struct {
	from, to *node
	deliver  func()
}

func (n *node) name() string { return fmt.Sprintf("rabbit@node%d", n.id) }

// whenAwake does f now, or once the node does not hang any more.
func (n *node) whenAwake(f func()) {
	switch {
	case !n.up:
	case n.hung:
		n.frozen = append(n.frozen, f)
	default:
		f()
	}
}

// linked reports whether messages of one node reach another one.
func (c *Cluster) linked(a, b *node) bool { return a == b || slices.Contains(a.sees, b) }

// hold keeps a message between two nodes until they see each other again, or give each other up.
func (c *Cluster) hold(from, to *node, deliver func()) {
	c.held = append(c.held, held{from, to, deliver})
}

// enlist has a queue known.
func (c *Cluster) enlist(n *node, q *queue) { n.book.live[q.name] = q }

// strike has it forgotten, by all that know it.
func (c *Cluster) strike(q *queue) {
	for _, n := range c.nodes {
		for _, of := range []map[string]*queue{n.book.live, n.book.away} {
			if of[q.name] == q {
				delete(of, q.name)
			}
		}
	}
}

// save writes down what is durable on the node's disk.
func (n *node) save() {
	n.disk = nil
	for _, q := range n.cluster.allQueues() {
		if q.node == n && q.durable && !q.quorum && n.up {
			for _, e := range slices.Concat(q.ready, q.inHand) {
				e.stored = true
			}
			n.disk = append(n.disk, saved{q, q.durables()})
		}
	}
}

// durables returns the messages that survive a restart.
func (q *queue) durables() (all []*entry) {
	for _, e := range slices.Concat(q.ready, q.inHand) {
		if e.message.properties.persistent() {
			kept := *e
			if e.holder != nil {
				kept.came++
			}
			kept.holder, kept.consumer = nil, nil
			all = append(all, &kept)
		}
	}
	slices.SortFunc(all, func(a, b *entry) int { return int(a.number) - int(b.number) })
	return all
}

// down ends all that runs on the node.
func (n *node) down() { n.end((*socket).cut) }

// end ends all that runs on the node, and sockets in this way.
func (n *node) end(socket func(*socket)) {
	c := n.cluster
	if !n.up {
		return
	}
	c.log("node %d: down", n.id)
	n.up, n.hung, n.frozen = false, false, nil
	for _, o := range c.allConnections() {
		if o.node == n {
			socket(o.socket)
			for _, number := range o.numbers {
				o.channels[number].die()
			}
			o.phase = over
			o.die()
			delete(c.connections, o.id)
		}
	}
	for _, q := range c.allQueues() {
		if q.node == n {
			q.lose()
		}
	}
	for _, other := range c.nodes {
		if other.up && c.linked(other, n) {
			other.nodeDown(n)
		}
	}
}

// lose is told that the queue's node is down.
func (q *queue) lose() {
	if q.quorum {
		return
	}
	q.idle.stop()
	q.expiry.stop()
	q.dead = true
	if q.cluster.config.Nodes == 1 {
		q.cluster.strike(q)
	}
}

// start starts the node with what is on its disk.
func (n *node) start() {
	c := n.cluster
	if n.up {
		return
	}
	c.log("node %d: starts", n.id)
	n.up = true
	n.lost = map[*node]bool{}
	n.join()
	for _, q := range c.allQueues() { // what was not durable is no more
		if q.node == n && q.dead {
			c.strike(q)
		}
	}
	for _, s := range n.disk {
		n.recover(s)
	}
	c.nodeUp(n)
}

// recover brings back a queue that is on disk.
func (n *node) recover(s saved) {
	old := s.queue
	q := &queue{process: n.cluster.newProcess(n), name: old.name, durable: true, autoDelete: old.autoDelete,
		arguments: old.arguments, number: old.number}
	for _, e := range s.entries {
		again := *e
		q.ready = append(q.ready, &again)
	}
	q.limit()
	for _, other := range n.cluster.nodes {
		if other.book == n.book || n.cluster.linked(n, other) && other.up {
			other.book.live[q.name] = q
			delete(other.book.away, q.name)
		}
	}
	q.use()
	q.expire()
}

// crash ends the process of a queue, and starts another one.
func (q *queue) crash() {
	n := q.node
	entries := q.durables()
	if q.cluster.config.Version >= V4_0 { // which writes what is to be confirmed, and the rest later
		entries = slices.DeleteFunc(entries, func(e *entry) bool { return !e.stored })
	}
	if !q.durable {
		entries = nil
	}
	again := &queue{process: q.cluster.newProcess(n), name: q.name, durable: q.durable, autoDelete: q.autoDelete,
		owner: q.owner, arguments: q.arguments, number: q.number, ready: entries}
	again.limit()
	for _, other := range q.cluster.nodes {
		if other.book.live[q.name] == q {
			other.book.live[q.name] = again
		}
	}
	q.stop(false)
	again.use()
	if o := q.owner; o != nil {
		if i := slices.Index(o.exclusive, q); i >= 0 && !o.dead {
			o.exclusive[i] = again
		} else { // its connection ends, or has: init_it in rabbit_amqqueue_process.erl
			again.soon(func() { again.delete("its connection is gone") })
		}
	}
}

// hang stops all processes of the node.
func (n *node) hang() {
	c := n.cluster
	if !n.up || n.hung {
		return
	}
	c.log("node %d: hangs", n.id)
	n.hung = true
	c.later(c.config.NetTick, func() {
		if n.hung {
			for _, other := range c.nodes {
				if other != n && other.up {
					other.nodeDown(n)
				}
			}
		}
	})
	c.elect(whenSilent)
}

// resume lets the processes go on.
func (n *node) resume() {
	if !n.hung {
		return
	}
	n.cluster.log("node %d: goes on", n.id)
	n.hung = false
	frozen := n.frozen
	n.frozen = nil
	for _, f := range frozen {
		n.cluster.at(n.cluster.now, f)
	}
	n.cluster.nodeUp(n)
}

// later has the cluster do something by itself.
func (c *Cluster) later(d time.Duration, f func()) { c.at(c.now.Add(d), f) }
