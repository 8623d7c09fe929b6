package broker

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync/atomic"
)

const (
	// frameMax is the largest frame that is asked for: what RabbitMQ allows unless it is told otherwise. Properties of a
	// message have to fit in one.
	frameMax = 128 << 10
	// frameMin is the least that a server must allow, and the most that a frame has before it is agreed upon.
	frameMin = 4096
	// frameRest is how much a frame is longer than its payload.
	frameRest = 8
	// skipped is how much of a payload is dropped in one go.
	skipped = 64 << 10
)

// What frames have in them, by their first byte.
const (
	frameMethod    = 1
	frameHeader    = 2
	frameBody      = 3
	frameHeartbeat = 8
	frameEnd       = 0xCE
)

var heartbeat = []byte{frameHeartbeat, 0, 0, 0, 0, 0, 0, frameEnd}

// bare is the header of a message without body and properties, the size of its payload, and that.
var bare = struct {
	size    uint32
	payload []byte
}{14, append([]byte{0, 60}, make([]byte, 12)...)}

// frames is a connection of which amqp091-go reads nothing that it cannot cope with, or would keep in memory. It has:
//
//   - whole frames, of no more than was agreed upon, with methods that a server sends on open channels and that end with
//     their frame;
//   - no confirm and no return of what was not published: amqp091-go counts up to what is confirmed;
//   - no word of being blocked, for which Socket.Blocked is there: amqp091-go 1.16 panics where it tells of one while the
//     connection ends;
//   - no bodies, because no message of berth's has one. Strangers publish bodies of any size, which must not end the
//     connection of a holder. A heartbeat takes the place of each piece, so that amqp091-go hears that there is life;
//   - no properties of a message with a body, and none that it cannot read: what a broker takes from strangers, or makes
//     larger than a frame by adding to it.
//
// Whatever else is a breach of the protocol, which ends the connection.
type frames struct {
	net.Conn // above TLS

	socket  *Socket // below TLS
	from    *bufio.Reader
	frame   []byte // the last one that was read whole
	ready   []byte // what is left for Read
	skip    int64  // how much of a payload is to be dropped; -1: none is
	most    uint32 // the longest payload
	logged  bool   // in, as far as methods of connections go
	client  *client
	returns uint64
	breach  atomic.Pointer[breach]
}

// breach says how a server has broken the protocol.
type breach struct{ what string }

func (b *breach) Error() string { return "the server breaks the protocol of AMQP 0-9-1: " + b.what }

// speak shakes hands on TLS over conn, which is above the socket, unless secure is nil, and returns what is to be read and
// written then.
func speak(ctx context.Context, conn net.Conn, socket *Socket, secure *tls.Config) (*frames, error) {
	if secure == nil {
		return newFrames(conn, socket), nil
	}
	client := tls.Client(conn, secure)
	if err := client.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return newFrames(client, socket), nil
}

func newFrames(conn net.Conn, socket *Socket) *frames {
	return &frames{Conn: conn, socket: socket, client: newClient(), from: bufio.NewReader(conn), skip: -1,
		most: frameMin - frameRest}
}

// ConnectionState is that of TLS, for amqp091-go's method of that name.
func (f *frames) ConnectionState() (state tls.ConnectionState) {
	if secure, ok := f.Conn.(*tls.Conn); ok {
		state = secure.ConnectionState()
	}
	return state
}

// Write implements net.Conn.
func (f *frames) Write(data []byte) (int, error) {
	f.client.says(data)
	return f.Conn.Write(data)
}

// Close implements net.Conn. To take leave of a server that breaks the protocol, as TLS does, could take long.
func (f *frames) Close() error {
	if f.breach.Load() != nil {
		f.socket.Cut()
	}
	return f.Conn.Close()
}

// Read implements net.Conn.
func (f *frames) Read(data []byte) (int, error) {
	for len(f.ready) == 0 {
		if err := f.next(); err != nil {
			if broken, ok := err.(*breach); ok {
				f.breach.Store(broken)
			}
			return 0, err
		}
	}
	n := copy(data, f.ready)
	f.ready = f.ready[n:]
	return n, nil
}

// next makes more of what is read ready, if that is to be passed on.
func (f *frames) next() error {
	if f.skip >= 0 {
		return f.drop()
	}
	start, err := f.from.Peek(7)
	if err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(start[3:])
	switch kind := start[0]; {
	case (kind == frameHeader || kind == frameBody) && !f.logged:
		return &breach{"content before the end of the login"}
	case (kind == frameHeader || kind == frameBody) && start[1]|start[2] == 0:
		return &breach{"content on channel 0"}
	case kind == frameBody:
		_, err = f.from.Discard(len(start))
		f.skip = int64(size)
	case kind == frameHeader && size < bare.size:
		return &breach{fmt.Sprintf("a content header of %d bytes", size)}
	case kind == frameHeader && size > f.most:
		f.strip(start)
		_, err = f.from.Discard(len(start))
		f.skip = int64(size)
	case kind == frameHeader:
		err = f.whole(size)
		if body := f.frame[11:19]; err == nil && (binary.BigEndian.Uint64(body) > 0 || !readable(f.frame[7:7+size])) {
			f.strip(f.frame)
		}
	case kind == frameMethod && size > f.most:
		return &breach{fmt.Sprintf("a method of %d bytes, and %d are agreed upon", size, f.most)}
	case kind == frameMethod:
		if err = f.whole(size); err == nil {
			err = f.check(binary.BigEndian.Uint16(f.frame[1:]), f.frame[7:7+size])
		}
	case kind == frameHeartbeat && size == 0:
		err = f.whole(0)
	default:
		return &breach{fmt.Sprintf("a frame of type %d with %d bytes", kind, size)}
	}
	return err
}

// whole reads a frame whose payload has that size, and makes it ready.
func (f *frames) whole(size uint32) error {
	n := int(size) + frameRest
	if cap(f.frame) < n {
		f.frame = make([]byte, n)
	}
	f.frame = f.frame[:n]
	if _, err := io.ReadFull(f.from, f.frame); err != nil {
		return err
	}
	f.ready = f.frame
	return ended(f.frame[n-1])
}

// strip makes a bare content header ready, in place of the one that begins like this.
func (f *frames) strip(start []byte) {
	f.ready = append(f.frame[:0], start[:3]...)
	f.ready = binary.BigEndian.AppendUint32(f.ready, bare.size)
	f.ready = append(append(f.ready, bare.payload...), frameEnd)
	f.frame = f.ready
}

// drop drops some of a payload, or the end of its frame.
func (f *frames) drop() error {
	if f.skip == 0 {
		f.skip = -1
		end, err := f.from.ReadByte()
		if err != nil {
			return err
		}
		return ended(end)
	}
	n, err := f.from.Discard(int(min(f.skip, skipped)))
	f.skip -= int64(n)
	f.ready = heartbeat
	return err
}

func ended(with byte) error {
	if with != frameEnd {
		return &breach{fmt.Sprintf("a frame that ends with %#x", with)}
	}
	return nil
}

// check looks at a method, and notes what it says about those to come.
func (f *frames) check(channel uint16, payload []byte) error {
	if len(payload) < 4 {
		return &breach{"a method without its number"}
	}
	is, arguments := numbered(payload), payload[4:]
	layout, known := methods[is]
	switch {
	case !known, (is.class == connection) != (channel == 0), is.login() == f.logged && !is.ending():
		return &breach{fmt.Sprintf("method %d.%d on channel %d out of place", is.class, is.number, channel)}
	case channel > 0 && !f.client.hears(channel, is):
		return &breach{fmt.Sprintf("method %d.%d on channel %d, which is not open", is.class, is.number, channel)}
	case !layout.fits(arguments):
		return &breach{fmt.Sprintf("method %d.%d has arguments of another length than it announces", is.class, is.number)}
	}
	switch is {
	case tune:
		f.most = agreed(binary.BigEndian.Uint32(arguments[2:])) - frameRest
	case openOK:
		f.logged = true
	case blocked, unblocked:
		f.socket.tell(is == blocked)
		f.ready = heartbeat
	case ack, nack:
		if tag, sent := binary.BigEndian.Uint64(arguments), f.client.sent(); tag > sent {
			return &breach{fmt.Sprintf("it confirms message %d of %d", tag, sent)}
		}
	case returned:
		f.returns++
		if sent := f.client.sent(); f.returns > sent {
			return &breach{fmt.Sprintf("%d messages come back of %d", f.returns, sent)}
		}
	}
	return nil
}

// agreed is the longest frame, as amqp091-go works it out.
func agreed(server uint32) uint32 {
	if server == 0 {
		return frameMax
	}
	return min(max(server, frameMin), frameMax)
}
