package rabbit

import (
	"cmp"
	"net"
	"regexp"
	"slices"
	"time"
)

// Serve has a node serve the connection, whose other end is a client's. Errors: ErrDown; the connection is closed then.
func (c *Cluster) Serve(node int, conn net.Conn) error {
	err := ErrDown
	c.do(func() {
		if n := c.nodes[node]; n.up {
			c.accept(n, conn)
			err = nil
		}
	})
	if err != nil {
		conn.Close()
	}
	return err
}

// Queues returns all queues, in the order of their names.
func (c *Cluster) Queues() (all []Queue) {
	c.do(func() {
		for _, q := range c.allQueues() {
			all = append(all, q.seen())
		}
	})
	return all
}

// Queue returns that queue, and whether it exists.
func (c *Cluster) Queue(name string) (found Queue, exists bool) {
	c.do(func() {
		if q := c.find(name); q != nil {
			found, exists = q.seen(), true
		}
	})
	return found, exists
}

func (q *queue) seen() Queue {
	s := Queue{Name: q.name, Quorum: q.quorum, Durable: q.durable, Exclusive: q.owner != nil, Node: q.node.id,
		Ready: len(q.ready) + len(q.returned), Unacked: len(q.inHand), Consumers: len(q.all)}
	if q.owner != nil {
		s.Owner = q.owner.id
	}
	return s
}

// Connections returns all connections that are logged in, in the order in which they were made.
func (c *Cluster) Connections() (all []Connection) {
	c.do(func() {
		for _, o := range c.allConnections() {
			if o.phase == running {
				all = append(all, Connection{ID: o.id, Name: o.name, User: o.user, Node: o.node.id,
					Channels: len(o.channels), Blocked: o.blocked})
			}
		}
	})
	return all
}

// DeleteQueue deletes a queue, as an operator does: not if it is exclusive. It reports whether it did.
func (c *Cluster) DeleteQueue(name string) (deleted bool) {
	return c.onQueue(name, func(q *queue) bool {
		if q.owner != nil {
			return false
		}
		q.delete("an operator deletes it")
		return true
	})
}

// LoseQueue deletes a queue without the word of its owner, exclusive or not, as defects of brokers have done: nobody is
// told. It reports whether it did.
func (c *Cluster) LoseQueue(name string) bool {
	return c.onQueue(name, func(q *queue) bool {
		c.log("queue %s: lost", q.name)
		c.strike(q)
		q.watchers = nil
		q.stop(true)
		return true
	})
}

// CrashQueue crashes the process of a classic queue, which is started again with what is on disk. It reports whether it
// did.
func (c *Cluster) CrashQueue(name string) bool {
	return c.onQueue(name, func(q *queue) bool {
		if q.quorum {
			return false
		}
		c.log("queue %s: crashes", q.name)
		q.crash()
		return true
	})
}

// PurgeQueue removes the messages that are ready. It reports whether there is such a queue.
func (c *Cluster) PurgeQueue(name string) bool {
	return c.onQueue(name, func(q *queue) bool {
		c.log("queue %s: an operator purges it", q.name)
		q.purge()
		return true
	})
}

func (c *Cluster) onQueue(name string, f func(q *queue) bool) (done bool) {
	c.do(func() {
		if q := c.find(name); q != nil && !q.dead {
			done = f(q)
		}
	})
	return done
}

// CloseConnection closes a connection, as an operator does: the client is told 320, and the reason. It reports whether
// there was one.
func (c *Cluster) CloseConnection(id int, reason string) (closed bool) {
	c.do(func() {
		o := c.connections[id]
		closed = o != nil
		if closed {
			o.soon(func() { o.fail(&refusal{code: connectionForced, text: reason}) })
		}
	})
	return closed
}

// CloseConnections closes all connections like CloseConnection.
func (c *Cluster) CloseConnections(reason string) {
	for _, o := range c.Connections() {
		c.CloseConnection(o.ID, reason)
	}
}

// Stop stops a node cleanly: connections are closed with 320, and what is durable is kept.
func (c *Cluster) Stop(node int) {
	const reason = "broker forced connection closure with reason 'shutdown'"
	c.do(func() {
		n := c.nodes[node]
		for _, o := range c.allConnections() {
			if o.node == n {
				o.emit((&refusal{code: connectionForced, text: reason}).frame(0))
				c.flush(o)
			}
		}
		n.save()
		n.end((*socket).close)
	})
}

// Kill kills a node: connections end without a word, and what is durable is kept as far as it was on disk.
func (c *Cluster) Kill(node int) {
	c.do(func() {
		c.nodes[node].save()
		c.nodes[node].down()
	})
}

// Start starts a node that was stopped or killed.
func (c *Cluster) Start(node int) { c.do(c.nodes[node].start) }

// Restart kills a node and starts it at once. With lost, nothing that the node has confirmed since the last Flush was on
// disk: queues, messages and deletions.
func (c *Cluster) Restart(node int, lost bool) {
	c.do(func() {
		if !lost {
			c.nodes[node].save()
		}
		c.nodes[node].down()
		c.nodes[node].start()
	})
}

// Flush has all of a node on disk.
func (c *Cluster) Flush(node int) { c.do(c.nodes[node].save) }

// Hang stops all processes of a node, as SIGSTOP does: it accepts connections, and answers nothing.
func (c *Cluster) Hang(node int) { c.do(c.nodes[node].hang) }

// Resume ends Hang.
func (c *Cluster) Resume(node int) { c.do(c.nodes[node].resume) }

// Split cuts the cluster into these groups of nodes, which do not hear of each other, and take each other for down after
// Config.NetTick. A node that is in none is alone.
func (c *Cluster) Split(groups ...[]int) { c.do(func() { c.split(groups, c.config.NetTick) }) }

// Disconnect is Split where all nodes know of it at once, as they do where connections are reset.
func (c *Cluster) Disconnect(groups ...[]int) { c.do(func() { c.split(groups, 0) }) }

// Heal ends Split and Disconnect. On Mnesia nodes that have taken each other for down do not know each other's queues
// before one of them is restarted.
func (c *Cluster) Heal() { c.do(func() { c.split([][]int{{0, 1, 2}}, 0) }) }

// Alarm raises or ends an alarm of memory.
func (c *Cluster) Alarm(on bool) { c.setAlarm("memory", on) }

// DiskAlarm raises or ends an alarm of a disk.
func (c *Cluster) DiskAlarm(on bool) { c.setAlarm("disk", on) }

func (c *Cluster) setAlarm(of string, on bool) {
	c.do(func() {
		c.log("alarm of %s: %t", of, on)
		c.alarms = slices.DeleteFunc(c.alarms, func(a string) bool { return a == of })
		if on {
			c.alarms = append(c.alarms, of)
			slices.Sort(c.alarms)
		}
		if len(c.alarms) == 0 {
			for _, o := range c.allConnections() {
				o.soon(o.unblock)
			}
		}
	})
}

// SetPolicy sets what holds for queues whose name matches the regular expression, in place of the policy of that pattern;
// nil takes it away. Keys are RabbitMQ's: max-length, overflow, message-ttl, expires, delivery-limit, consumer-timeout,
// consumer-disconnected-timeout, delayed-retry-type, delayed-retry-min, delayed-retry-max. Numbers are int. It panics if the pattern is no regular expression.
func (c *Cluster) SetPolicy(pattern string, definition map[string]any) {
	compiled := regexp.MustCompile(pattern)
	c.do(func() {
		c.policies = slices.DeleteFunc(c.policies, func(p *policy) bool { return p.text == pattern })
		if definition != nil {
			c.policies = append([]*policy{{compiled, pattern, definition}}, c.policies...)
		}
		for _, q := range c.allQueues() {
			q.limit()
			q.use()
			q.dropHead()
			q.refuseNoMore()
		}
	})
}

// SetUser makes a user, who may do nothing, or changes the password. Connections stay.
func (c *Cluster) SetUser(name, password string) { c.do(func() { c.passwords[name] = password }) }

// SetTags gives a user these tags, in place of others, from its next login on. "impersonator" is one who may publish as any
// user; others mean nothing here.
func (c *Cluster) SetTags(user string, tags ...string) { c.do(func() { c.tags[user] = tags }) }

// SetConsumerTimeout has channels that are opened and consumers that begin from now on acknowledge within that time; zero:
// 30 min. Before 4.3 channels look each tick for what is too old; zero: each minute.
func (c *Cluster) SetConsumerTimeout(timeout, tick time.Duration) {
	c.do(func() {
		c.config.ConsumerTimeout, c.tick = cmp.Or(timeout, consumerTimeout), cmp.Or(tick, tickInterval)
	})
}

// SetPermissions says which queues the user may configure, write to and read from, as regular expressions. An empty one
// matches nothing.
func (c *Cluster) SetPermissions(user, configure, write, read string) {
	compile := func(text string) *regexp.Regexp {
		switch text {
		case "":
			text = "^$"
		case ".*":
			return nil
		}
		return regexp.MustCompile(text)
	}
	rights := &permissions{compile(configure), compile(write), compile(read)}
	c.do(func() { c.rights[user] = rights })
}

func (c *Cluster) allConnections() (all []*connection) {
	for _, o := range c.connections {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *connection) int { return cmp.Compare(a.id, b.id) })
	return all
}
