package simulation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"berth/test/simulation/history"
)

// route is the way between a host and a node, of which each direction can be blocked. world.mu guards it.
type route struct {
	up, down int           // by how many faults a direction is blocked
	slow     time.Duration // how much later everything comes
}

// link is a connection between a process and a node. world.mu guards it.
type link struct {
	number         int
	w              *world
	of             *task
	node           int
	client, server *end
	up, down       *pipe
}

// String returns what a history calls it.
func (l *link) String() string { return fmt.Sprintf("node %d #%d", l.node, l.number) }

// pipe is one direction of a connection: a queue of what is under way. world.mu guards it.
type pipe struct {
	link    *link
	up      bool
	to      *end
	pending []chunk
	last    time.Duration // when the last one that was sent is to arrive
	timer   *time.Timer
	tap     history.Tap
	over    bool // nothing comes any more
}

// chunk is something under way.
type chunk struct {
	data []byte
	end  error // instead of data: how the connection ends
	at   time.Duration
	sent bool // it has left the process
	sure bool // it is past what blocks the way
}

// send sends data, or the end. The caller has world.mu.
func (p *pipe) send(c chunk) {
	if !p.over {
		p.pending = append(p.pending, c)
		p.pump()
	}
}

// blocked reports whether nothing gets through now. The caller has world.mu.
func (p *pipe) blocked() bool {
	r := p.link.of.host.routes[p.link.node]
	if p.up {
		return r.up > 0
	}
	return r.down > 0
}

// pump delivers what has arrived, and sets the timer for what is to come. The caller has world.mu.
func (p *pipe) pump() {
	w := p.link.w
	for i := range p.pending {
		c := &p.pending[i]
		if p.up && p.link.of.stopped != nil && !c.sent {
			break
		}
		if !c.sent {
			c.sent = true
			c.at = max(p.last, w.now()+w.latency()+p.link.of.host.routes[p.link.node].slow)
			p.last = c.at
		}
	}
	open := func() bool { return len(p.pending) > 0 && p.pending[0].sent && (p.pending[0].sure || !p.blocked()) }
	for open() && p.pending[0].at <= w.now() {
		c := p.pending[0]
		p.pending = p.pending[1:]
		p.arrive(c)
	}
	if p.timer != nil {
		p.timer.Stop()
	}
	if open() {
		p.timer = w.later(p.pending[0].at-w.now(), func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			p.pump()
		})
	}
}

// forget drops what has not left a process that is over. The caller has world.mu.
func (p *pipe) forget() {
	p.pending = slices.DeleteFunc(p.pending, func(c chunk) bool { return !c.sent })
}

// resume is for a way that is not blocked any more: what was under way is sent again. The caller has world.mu.
func (p *pipe) resume() {
	w := p.link.w
	p.last = 0
	for i := range p.pending {
		if c := &p.pending[i]; c.sent {
			c.at = max(p.last, w.now()+w.latency())
			p.last = c.at
		}
	}
	p.pump()
}

// arrive is for what is there. The caller has world.mu.
func (p *pipe) arrive(c chunk) {
	if c.end != nil {
		p.over, p.pending = true, nil
		p.link.w.note(p.link.of.name, "%s %s: %v", arrow(p.up), p.link, c.end)
	} else if !p.up {
		p.tap.Take(c.data, func(m history.Message) { p.link.w.tell(p.link, m, false) })
	}
	p.to.receive(c)
}

func arrow(up bool) string {
	if up {
		return "~>"
	}
	return "<~"
}

// cut ends this direction after some of what is under way, which arrives within late. The caller has world.mu.
func (p *pipe) cut(end error, late time.Duration) {
	if p.over {
		return
	}
	kept := 0
	for kept < len(p.pending) && p.pending[kept].sent {
		kept++
	}
	if kept > 0 {
		kept = p.link.w.random.IntN(kept + 1)
	}
	p.pending = p.pending[:kept]
	at := p.link.w.now() + late
	for i := range p.pending {
		p.pending[i].at = max(p.pending[i].at, at)
	}
	p.pending = append(p.pending, chunk{end: end, at: max(at, p.last), sent: true})
	p.pump()
}

var errReset = &net.OpError{Op: "read", Net: "simulated", Err: syscall.ECONNRESET}

// reset has both ends learn that the connection is reset. The node learns of it late, after what it still gets. The
// caller has world.mu.
func (l *link) reset(late time.Duration) {
	l.w.note(l.of.name, "--- %s is reset", l)
	l.down.cut(errReset, 0)
	l.up.cut(errReset, late)
}

// lose has the node learn at once that the connection is reset. The process gets what is under way late, and learns of
// the reset after that. The caller has world.mu.
func (l *link) lose(late time.Duration) {
	l.w.note(l.of.name, "--- %s is lost behind the process", l)
	l.up.cut(errReset, 0)
	for i := range l.down.pending {
		c := &l.down.pending[i]
		c.at, c.sure = c.at+late, true
	}
	l.down.pending = append(l.down.pending, chunk{end: errReset, at: l.w.now() + late, sent: true})
	l.down.pump()
}

// dial connects a process to a node.
func (w *world) dial(ctx context.Context, of *task, address string) (net.Conn, error) {
	name, _, _ := strings.Cut(address, ":")
	node, err := strconv.Atoi(strings.TrimPrefix(name, "node"))
	if err != nil {
		return nil, err
	}
	for tries := 0; ; tries++ {
		if !of.await() {
			return nil, errReset
		}
		w.mu.Lock()
		r, pause := of.host.routes[node], 2*w.latency()
		through := r.up == 0 && r.down == 0
		w.mu.Unlock()
		if !through {
			pause = min(time.Second<<tries, 8*time.Second) // as Linux sends SYN again
		}
		select {
		case <-time.After(pause + r.slow):
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-of.gone:
			return nil, errReset
		}
		if through {
			break
		}
	}
	l := w.connect(of, node)
	if err := w.serve(node, l.server); err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(of.links, l)
		delete(w.links, l)
		w.note(of.name, "node %d refuses the connection", node)
		return nil, &net.OpError{Op: "dial", Net: "simulated", Err: errors.Join(syscall.ECONNREFUSED, err)}
	}
	return l.client, nil
}

// connect makes a link that nobody serves yet.
func (w *world) connect(of *task, node int) *link {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := &link{number: w.number(), w: w, of: of, node: node}
	l.client, l.server = newEnd(l, true), newEnd(l, false)
	l.up = &pipe{link: l, up: true, to: l.server, tap: history.Tap{Header: 8, Brief: w.plan.Silent}}
	l.down = &pipe{link: l, to: l.client, tap: history.Tap{Brief: w.plan.Silent}}
	l.client.out, l.server.out = l.up, l.down
	of.links[l], w.links[l] = true, true
	if of.killed {
		l.client.abandon()
	}
	w.note(of.name, "connects to %s", l)
	return l
}

// errEnd is the end of a connection that was closed cleanly.
var errEnd = io.EOF
