package simulation

import (
	"net"
	"os"
	"slices"
	"time"

	"berth/test/simulation/history"
)

// end is one end of a link: a net.Conn whose writes never block. Its methods may be called from several goroutines.
type end struct {
	link   *link
	client bool
	out    *pipe

	// world.mu guards what follows.
	buffer   []byte
	over     error // how the other side has ended it, once the buffer is read
	closed   bool
	linger   bool // Close sends what is still to be sent
	deadline time.Time
	changed  chan struct{} // closed when there is something to look at; nil: nobody waits for that
}

func newEnd(l *link, client bool) *end {
	return &end{link: l, client: client, linger: true}
}

// ring has who reads look. The caller has world.mu.
func (e *end) ring() {
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
}

// change is closed when there is something to look at. The caller has world.mu.
func (e *end) change() <-chan struct{} {
	if e.changed == nil {
		e.changed = make(chan struct{})
	}
	return e.changed
}

// receive takes what has arrived. The caller has world.mu.
func (e *end) receive(c chunk) {
	switch {
	case c.end != nil:
		e.over = c.end
	case e.closed: // nobody reads: the kernel resets the connection
		if !e.out.over {
			e.out.cut(errReset, 0)
		}
		return
	default:
		if len(e.buffer) == 0 {
			e.buffer = slices.Clip(c.data)
		} else {
			e.buffer = append(e.buffer, c.data...)
		}
	}
	e.ring()
}

// Read implements net.Conn.
func (e *end) Read(data []byte) (int, error) {
	w := e.link.w
	for {
		if e.client {
			e.link.of.await()
		}
		w.mu.Lock()
		n, wait, left, err := e.look(data)
		w.mu.Unlock()
		if n > 0 || err != nil || len(data) == 0 {
			return n, err
		}
		e.wait(wait, left)
	}
}

// look reads what there is, or returns what to wait for, and how long at most; negative: for ever. The caller has
// world.mu.
func (e *end) look(data []byte) (n int, wait <-chan struct{}, left time.Duration, err error) {
	left = -1
	if !e.deadline.IsZero() {
		left = max(0, time.Until(e.deadline))
	}
	late := left == 0
	if e.client && e.link.of.inFirst && len(e.buffer) > 0 {
		late = false
	}
	switch {
	case e.closed:
		return 0, nil, 0, net.ErrClosed
	case e.client && e.link.of.stopped != nil:
		return 0, e.change(), -1, nil
	case late:
		return 0, nil, 0, os.ErrDeadlineExceeded
	case len(e.buffer) > 0:
		n = copy(data, e.buffer)
		if e.buffer = e.buffer[n:]; len(e.buffer) == 0 {
			e.buffer = nil
			e.link.of.inFirst = false
		}
		return n, nil, 0, nil
	case e.over != nil:
		return 0, nil, 0, e.over
	}
	return 0, e.change(), left, nil
}

func (e *end) wait(changed <-chan struct{}, left time.Duration) {
	if left < 0 {
		<-changed
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	}
}

// Write implements net.Conn.
func (e *end) Write(data []byte) (int, error) {
	w := e.link.w
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case e.closed:
		return 0, net.ErrClosed
	case e.over == errReset:
		return 0, errReset
	}
	c := chunk{data: append([]byte(nil), data...)}
	if e.client {
		e.link.up.tap.Take(c.data, func(m history.Message) { w.tell(e.link, m, true) })
		if e.closed { // a fault was waiting for that
			return 0, net.ErrClosed
		}
	}
	e.out.send(c)
	return len(data), nil
}

// Close implements net.Conn.
func (e *end) Close() error {
	w := e.link.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.closed {
		return net.ErrClosed
	}
	e.close()
	return nil
}

// close closes this end. The caller has world.mu.
func (e *end) close() {
	if e.closed {
		return
	}
	e.closed = true
	e.ring()
	if e.client {
		delete(e.link.of.links, e.link)
	}
	switch {
	case e.out.over:
	case e.linger && len(e.buffer) == 0:
		e.out.send(chunk{end: errEnd})
	case e.client && e.link.of.stopped != nil: // it is not closed yet, for others
		e.out.send(chunk{end: errReset})
	default:
		e.out.cut(errReset, 0)
	}
	if e.link.client.closed && e.link.server.closed {
		delete(e.link.w.links, e.link)
	}
}

// abandon closes this end as the kernel does for a process that has ended: what it has sent still arrives. The caller
// has world.mu.
func (e *end) abandon() {
	e.linger, e.buffer = true, nil
	e.close()
}

// SetLinger has Close drop what is still to be sent, for 0 seconds.
func (e *end) SetLinger(seconds int) error {
	e.link.w.mu.Lock()
	defer e.link.w.mu.Unlock()
	e.linger = seconds != 0
	return nil
}

// SetDeadline implements net.Conn. Writes need none.
func (e *end) SetDeadline(t time.Time) error { return e.SetReadDeadline(t) }

// SetReadDeadline implements net.Conn.
func (e *end) SetReadDeadline(t time.Time) error {
	e.link.w.mu.Lock()
	defer e.link.w.mu.Unlock()
	e.deadline = t
	e.ring()
	return nil
}

// SetWriteDeadline implements net.Conn: writes need none.
func (e *end) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr implements net.Conn.
func (e *end) LocalAddr() net.Addr { return address("here") }

// RemoteAddr implements net.Conn.
func (e *end) RemoteAddr() net.Addr { return address("there") }

type address string

func (a address) Network() string { return "simulated" }
func (a address) String() string  { return string(a) }
