package rabbit

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// Cluster is a simulated cluster. Its methods may be called from several goroutines; each has taken effect when it
// returns. Those that change something return before clients have heard of it.
type Cluster struct {
	*kernel
	config  Config
	running sync.WaitGroup // all goroutines
	ending  sync.Once

	// The rest is the kernel's.
	nodes       []*node
	connections map[int]*connection
	written     []*connection // that have something to be written
	met         int           // connections
	tokens      uint64
	replies     map[string]*channel // by the name of their queue of direct reply-to
	questions   []*question
	held        []held
	patient     []func() // channels that wait for a node to be back
	metadata    *store
	alarms      []string // what of, by name
	policies    []*policy
	passwords   map[string]string
	rights      map[string]*permissions
	tags        map[string][]string // of users
	tick        time.Duration       // how often a channel looks for what is too old
}

// New starts a cluster. Its user is guest, with the password guest, who may do anything in the vhost "/".
func New(config Config) *Cluster {
	config.Version = cmp.Or(config.Version, V3_10)
	config.Nodes = cmp.Or(config.Nodes, 1)
	config.Heartbeat = cmp.Or(config.Heartbeat, time.Minute)
	config.ConsumerTimeout = cmp.Or(config.ConsumerTimeout, consumerTimeout)
	config.NetTick = cmp.Or(config.NetTick, time.Minute)
	c := &Cluster{kernel: newKernel(config), config: config, connections: map[int]*connection{},
		replies: map[string]*channel{}, metadata: &store{}, passwords: map[string]string{"guest": "guest"},
		rights: map[string]*permissions{}, tags: map[string][]string{}, tick: tickInterval}
	shared := newBook()
	for id := range config.Nodes {
		c.nodes = append(c.nodes, &node{cluster: c, id: id, up: true, book: shared, lost: map[*node]bool{}})
	}
	for _, n := range c.nodes {
		n.sees = slices.Clone(c.nodes)
	}
	c.flushes = c.flushAll
	c.running.Go(c.run)
	c.SetPermissions("guest", ".*", ".*", ".*")
	return c
}

// Close ends all nodes, connections and goroutines of the cluster.
func (c *Cluster) Close() {
	c.ending.Do(func() {
		c.do(func() {
			for _, o := range c.allConnections() {
				o.socket.cut()
			}
		})
		close(c.closing)
	})
	c.running.Wait()
}

// String is the version as a server says it.
func (v Version) String() string {
	switch v {
	case V4_0:
		return "4.0.5"
	case V4_3:
		return "4.3.6"
	}
	return "3.10.8"
}

// accept serves a connection.
func (c *Cluster) accept(n *node, conn net.Conn) {
	c.met++
	o := &connection{process: c.newProcess(n), id: c.met, socket: newSocket(conn), channels: map[uint16]*channel{}}
	c.connections[o.id] = o
	o.socket.start(&c.running, func(data []byte, end bool) {
		c.enter(o.id, func() {
			o.receive(note{f: func() {
				if end {
					o.hungUp()
				} else {
					o.read(data)
				}
			}})
		})
	})
}

// flush gives a connection's socket what is to be written.
func (c *Cluster) flush(o *connection) {
	if len(o.out) > 0 {
		o.socket.write(o.out)
		o.out = nil
	}
}

// flushAll does so for all, and rests after each.
func (c *Cluster) flushAll(rest func()) {
	all := c.written
	c.written = nil
	slices.SortFunc(all, func(a, b *connection) int { return cmp.Compare(a.id, b.id) })
	for _, o := range all {
		if len(o.out) > 0 && c.connections[o.id] == o {
			c.flush(o)
			rest()
		}
	}
}

func (c *Cluster) log(format string, args ...any) {
	if c.config.Log != nil {
		c.config.Log(format, args...)
	}
}

// token returns a name that nobody else has.
func (c *Cluster) token(prefix string) string {
	c.tokens++
	return fmt.Sprintf("%s%022d", prefix, c.tokens)
}

// address returns an address of direct reply-to.
func (c *Cluster) address(n uint64) string { return fmt.Sprintf("%s.%022d", directReply, n) }

// spoils reports whether the broker fails to tell of a refusal: one whose text is cut, and is not plain ASCII.
func (c *Cluster) spoils(r *refusal) bool {
	text := codeNames[r.code] + " - " + r.text
	return c.config.Version >= V4_0 && len(text) > 255 && slices.ContainsFunc([]byte(text), func(b byte) bool { return b > 127 })
}

// find returns a queue that any node knows.
func (c *Cluster) find(name string) *queue {
	for _, n := range c.nodes {
		if q := n.book.live[name]; q != nil {
			return q
		}
	}
	for _, n := range c.nodes {
		if q := n.book.away[name]; q != nil {
			return q
		}
	}
	return nil
}

func (c *Cluster) allQueues() (all []*queue) {
	seen := map[*queue]bool{}
	for _, n := range c.nodes {
		for _, of := range []map[string]*queue{n.book.live, n.book.away} {
			for _, q := range of {
				if !seen[q] {
					seen[q] = true
					all = append(all, q)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b *queue) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.node.id, b.node.id))
	})
	return all
}
