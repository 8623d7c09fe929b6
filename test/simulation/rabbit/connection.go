package rabbit

import (
	"fmt"
	"time"
)

// phase is how far a connection is.
type phase int

const (
	greeting phase = iota
	starting
	tuning
	opening
	running
	closing // we have sent connection.close
	refused // what was said before the connection was open is no good: nothing is read any more
	over
)

// closingTimeout is how long the broker waits for the answer to its connection.close.
const closingTimeout = 30 * time.Second

// silentDelay is for how long a client is kept waiting whose login is refused.
const silentDelay = 3 * time.Second

// connection is the broker's side of a connection: what RabbitMQ calls a reader.
type connection struct {
	process
	id     int
	socket *socket
	phase  phase
	in     []byte // what was read and not looked at
	out    []byte // what is to be written

	user         string
	impersonates bool // it may publish as any user
	name         string
	capabilities table
	frameMax     uint32
	heartbeat    time.Duration

	channels  map[uint16]*channel
	numbers   []uint16 // of channels, in the order in which they were opened
	exclusive []*queue
	received  uint64 // bytes
	sent      uint64 // bytes
	blocked   bool
	ended     bool // the client has closed the socket, which nobody has noticed
}

// emit has a frame written, after what was before.
func (o *connection) emit(data []byte) {
	if o.dead {
		return
	}
	if len(o.out) == 0 {
		o.node.cluster.written = append(o.node.cluster.written, o)
	}
	o.out = append(o.out, data...)
	o.sent += uint64(len(data))
}

func (o *connection) emitMethod(m method, arguments []byte) { o.emit(methodFrame(0, m, arguments)) }

// read takes what the client has written.
func (o *connection) read(data []byte) {
	o.in = append(o.in, data...)
	o.received += uint64(len(data))
	o.parse()
}

// parse handles the frames that were read. It stops where the connection is blocked, or waits.
func (o *connection) parse() {
	for !o.dead && !o.blocked && !o.waiting {
		if o.phase == greeting {
			if !o.greet() {
				return
			}
			continue
		}
		f, rest, ok, broken := cutFrame(o.in, max(o.frameMax, 4096))
		if broken {
			o.fail(&refusal{code: frameError, text: "not a frame"})
			return
		}
		if !ok {
			return
		}
		o.in = rest
		o.handle(f)
	}
}

// handle handles one frame.
func (o *connection) handle(f frame) {
	switch {
	case f.kind == frameHeartbeat:
	case f.channel == 0 && f.kind == frameMethod && len(f.payload) >= 4:
		r := reader{b: f.payload}
		m := method(r.u32())
		o.control(m, &r)
		if r.bad && !o.dead {
			o.fail(&refusal{code: frameError, text: fmt.Sprintf("method %d.%d", m.class(), m.number())})
		}
	case o.phase != running:
	default:
		o.forward(f)
	}
}

// forward gives a frame to its channel.
func (o *connection) forward(f frame) {
	ch := o.channels[f.channel]
	isOpen := f.kind == frameMethod && len(f.payload) >= 4 && isMethod(f.payload, channelOpen)
	switch {
	case ch == nil && isOpen:
		ch = o.openChannel(f.channel)
	case ch == nil && f.kind == frameMethod && isMethod(f.payload, channelCloseOK):
		return
	case ch == nil:
		o.fail(&refusal{code: channelError, text: "expected 'channel.open'", of: methodIn(f)})
		return
	}
	o.tell(&ch.process, func() { ch.frame(f) })
	switch {
	case f.kind == frameMethod && isMethod(f.payload, channelCloseOK):
		o.forget(ch)
	case f.kind == frameHeader, f.kind == frameBody:
		o.published()
	}
}

func isMethod(payload []byte, m method) bool {
	r := reader{b: payload}
	return method(r.u32()) == m
}

func methodIn(f frame) method {
	if f.kind != frameMethod {
		return 0
	}
	r := reader{b: f.payload}
	return method(r.u32())
}

func (o *connection) openChannel(number uint16) *channel {
	ch := newChannel(o, number)
	o.channels[number] = ch
	o.numbers = append(o.numbers, number)
	return ch
}

// forget makes the number of a channel free.
func (o *connection) forget(ch *channel) {
	if o.channels[ch.number] != ch {
		return
	}
	delete(o.channels, ch.number)
	for i, n := range o.numbers {
		if n == ch.number {
			o.numbers = append(o.numbers[:i], o.numbers[i+1:]...)
			break
		}
	}
}

// fail closes the connection because of what the client has done.
func (o *connection) fail(r *refusal) {
	if o.phase >= closing {
		return
	}
	if o.phase < running { // who does not know the protocol is not told
		o.phase = refused
		o.after(silentDelay, o.finish)
		return
	}
	o.cluster.log("connection %d (%s): closed with %d %s", o.id, o.name, r.code, r.text)
	o.phase = closing
	o.leave(func() {
		o.emit(r.frame(0))
		o.after(closingTimeout, o.finish)
		o.parse()
	})
}

// leave ends all channels, then deletes the queues that are exclusive to the connection, and then does the rest.
func (o *connection) leave(then func()) {
	for _, number := range o.numbers {
		o.channels[number].end()
	}
	o.channels, o.numbers = map[uint16]*channel{}, nil
	o.deleteExclusive(then)
}

// deleteExclusive deletes the connection's own queues, one after the other.
func (o *connection) deleteExclusive(then func()) {
	if len(o.exclusive) == 0 {
		then()
		return
	}
	q := o.exclusive[0]
	o.exclusive = o.exclusive[1:]
	next := func() { o.deleteExclusive(then) }
	if q.dead {
		next()
		return
	}
	o.ask(&q.process, func() func() {
		q.delete("its connection closes")
		return next
	}, next)
}

// finish ends the connection without another word.
func (o *connection) finish() {
	if o.dead {
		return
	}
	o.cluster.log("connection %d (%s): ends", o.id, o.name)
	o.phase = over
	o.cluster.flush(o)
	o.socket.close()
	o.vanish()
}

// vanish ends the process, which channels and queues hear of, in any order.
func (o *connection) vanish() {
	if o.dead {
		return
	}
	for _, number := range o.numbers {
		ch := o.channels[number]
		o.tell(&ch.process, ch.end)
	}
	for _, q := range o.exclusive {
		if !q.dead {
			o.tell(&q.process, func() { q.delete("its connection is gone") })
		}
	}
	o.phase = over
	o.die()
	delete(o.cluster.connections, o.id)
}

// hungUp is told that the client has closed the socket. One that is blocked is not read from: that it is closed is
// noticed by the next heartbeat that is sent, or once the alarm is over.
func (o *connection) hungUp() {
	if o.ended = o.blocked; !o.ended {
		o.lose()
	}
}

// lose ends a connection whose socket is gone.
func (o *connection) lose() {
	if o.dead {
		return
	}
	o.cluster.log("connection %d (%s): its socket is gone", o.id, o.name)
	o.socket.cut()
	o.vanish()
}

// beat sends heartbeats, and ends a connection from which nothing is heard: rabbit_heartbeat.erl.
func (o *connection) beat() {
	if o.heartbeat == 0 {
		return
	}
	o.watchSilence(o.received, 0)
	o.watchSpeech(o.sent)
}

// watchSilence looks every heartbeat whether anything was received, and ends the connection the second time in a row that
// nothing was.
func (o *connection) watchSilence(before uint64, same int) {
	o.after(o.heartbeat, func() {
		switch {
		case o.phase > running:
		case o.received != before, o.blocked:
			o.watchSilence(o.received, 0)
		case same == 0:
			o.watchSilence(before, 1)
		default:
			o.cluster.log("connection %d (%s): nothing heard for %s", o.id, o.name, 2*o.heartbeat)
			o.lose()
		}
	})
}

// watchSpeech sends a heartbeat each half of one that nothing was sent.
func (o *connection) watchSpeech(before uint64) {
	o.after(o.heartbeat/2, func() {
		if o.phase > running {
			return
		}
		if o.ended {
			o.lose()
			return
		}
		if o.sent == before {
			var w writer
			w.frame(frameHeartbeat, 0, nil)
			o.emit(w.b)
		}
		o.watchSpeech(o.sent)
	})
}
