package rabbit

import (
	"slices"
	"time"
)

// process is what is a process in RabbitMQ: a connection, a channel, a queue. It does one thing after the other, and what
// others want of it waits meanwhile, in the order in which it was sent by each of them.
type process struct {
	cluster *Cluster
	node    *node
	dead    bool
	waiting bool // for an answer
	inbox   []note
	gated   []note // what waits for most nodes; of a quorum queue
	gate    func() bool
	last    map[*process]time.Time // when the last message of that process arrives
}

// note is what one process sends to another.
type note struct {
	f    func() // what the receiver does
	lost func() // what happens if it is no more; nil: nothing
	call bool   // the sender waits for an answer
}

func (c *Cluster) newProcess(n *node) process {
	return process{cluster: c, node: n, last: map[*process]time.Time{}}
}

// tell sends a message, without an answer.
func (p *process) tell(to *process, f func()) { p.send(to, note{f: f}) }

// send sends a message. It overtakes no earlier one.
func (p *process) send(to *process, m note) {
	c, when := p.cluster, p.cluster.now
	if c.delay != nil && p != to {
		when = when.Add(c.delay())
	}
	if last := to.last[p]; last.After(when) {
		when = last
	}
	to.last[p] = when
	away := p.node != to.node && p.node.lost[to.node] // and that is known
	switch {
	case away && to.gate != nil && c.config.Version < V4_3 && !m.call: // nobody says it again
	case away && to.gate == nil:
		if m.lost != nil {
			c.at(when, m.lost)
		}
	case p.node != to.node && !c.linked(p.node, to.node):
		c.hold(p.node, to.node, func() { p.cluster.at(c.now, func() { to.receive(m) }) })
	default:
		c.at(when, func() { to.receive(m) })
	}
}

// after has the process do something by itself later.
func (p *process) after(d time.Duration, f func()) *event {
	return p.cluster.at(p.cluster.now.Add(d), func() { p.receive(note{f: f}) })
}

// soon has the process do something once it has done what it has to do now.
func (p *process) soon(f func()) { p.after(0, f) }

// receive does what a message wants, now or once the process can.
func (p *process) receive(m note) {
	switch {
	case p.dead || !p.node.up && p.gate == nil:
		if m.lost != nil {
			m.lost()
		}
	case p.gate != nil && !p.gate():
		p.gated = append(p.gated, m)
	case p.node.hung:
		p.node.frozen = append(p.node.frozen, func() { p.receive(m) })
	case p.waiting:
		p.inbox = append(p.inbox, m)
	default:
		m.f()
	}
}

// question is a call that has not been answered.
type question struct {
	from, to *process
	over     bool
	lost     func()
}

// ask has another process do f, and waits: the process does nothing else until it does what f has returned, or lost where
// the other is no more.
func (p *process) ask(to *process, f func() (then func()), lost func()) {
	c := p.cluster
	p.waiting = true
	q := &question{from: p, to: to, lost: lost}
	c.questions = append(slices.DeleteFunc(c.questions, func(q *question) bool { return q.over }), q)
	answer := func(then func()) {
		if q.over {
			return
		}
		q.over = true
		p.resume(then)
	}
	p.send(to, note{
		call: true,
		f: func() {
			then := f()
			to.reply(p, func() { answer(then) })
		},
		lost: func() { c.at(c.now, func() { p.node.whenAwake(func() { answer(lost) }) }) },
	})
}

// reply sends an answer, which is not kept waiting.
func (p *process) reply(to *process, f func()) {
	c, when := p.cluster, p.cluster.now
	if c.delay != nil && p != to {
		when = when.Add(c.delay())
	}
	if last := to.last[p]; last.After(when) {
		when = last
	}
	to.last[p] = when
	deliver := func() { to.node.whenAwake(f) }
	if p.node != to.node && !c.linked(p.node, to.node) {
		c.hold(p.node, to.node, deliver)
		return
	}
	c.at(when, deliver)
}

// resume ends the wait for an answer.
func (p *process) resume(then func()) {
	if p.dead || !p.node.up {
		return
	}
	p.waiting = false
	then()
	for !p.waiting && !p.dead && len(p.inbox) > 0 {
		m := p.inbox[0]
		p.inbox = p.inbox[1:]
		m.f()
	}
	if p.dead {
		p.drop()
	}
}

// pause has the process do nothing until resume.
func (p *process) pause() { p.waiting = true }

// drop loses what the process has not done.
func (p *process) drop() {
	inbox := p.inbox
	p.inbox = nil
	for _, m := range inbox {
		if m.lost != nil {
			m.lost()
		}
	}
}

// die ends the process.
func (p *process) die() {
	p.dead = true
	p.drop()
}

// bounce answers the questions of processes of one node to those of another one, which is down for them.
func (c *Cluster) bounce(from, to *node) {
	var left []*question
	for _, q := range c.questions {
		switch {
		case q.over:
		case q.from.node == from && q.to.node == to:
			q.over = true
			c.at(c.now, func() { q.from.node.whenAwake(func() { q.from.resume(q.lost) }) })
		default:
			left = append(left, q)
		}
	}
	c.questions = left
}
