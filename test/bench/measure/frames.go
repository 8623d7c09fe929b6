package measure

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
)

// AMQP 0-9-1, section 2.3.5: a frame is its type, a channel, the size of its
// payload, the payload and one byte that ends it.
const (
	frameHeader    = 7
	frameEnd       = 0xCE
	frameMethod    = 1
	frameHeartbeat = 8

	protocolHeader = 8 // bytes that a client sends before its first frame
)

// tally is what was counted on all connections in one direction.
type tally struct {
	frames, heartbeats atomic.Int64
	names              map[methodID]Method // what is counted of methods
	methods            methodCounts
}

// frameCounter counts the frames of one connection in one direction, which come in
// pieces of any length.
type frameCounter struct {
	tally  *tally
	skip   int    // bytes before the next frame: the protocol header
	header []byte // of the present frame, as far as it has come
	left   int    // of its payload and the byte that ends it, once the header is complete
	method []byte // the first of its payload
}

// Write counts the frames that end in a piece. It fails over what is not a frame.
func (c *frameCounter) Write(piece []byte) (int, error) {
	all := len(piece)
	for len(piece) > 0 {
		switch {
		case c.skip > 0:
			n := min(c.skip, len(piece))
			c.skip, piece = c.skip-n, piece[n:]
		case c.left == 0:
			n := min(frameHeader-len(c.header), len(piece))
			c.header, piece = append(c.header, piece[:n]...), piece[n:]
			if len(c.header) == frameHeader {
				c.left = int(binary.BigEndian.Uint32(c.header[3:])) + 1
			}
		default:
			n := min(c.left, len(piece))
			last := piece[n-1]
			if c.header[0] == frameMethod {
				c.method = append(c.method, piece[:min(n, maxMethod-len(c.method))]...)
			}
			c.left, piece = c.left-n, piece[n:]
			if c.left > 0 {
				continue
			}
			if last != frameEnd {
				return 0, fmt.Errorf("lost count: a frame ends with %#x and not with %#x", last, frameEnd)
			}
			c.count()
		}
	}
	return all, nil
}

// count counts a frame that is complete.
func (c *frameCounter) count() {
	if c.header[0] == frameHeartbeat {
		c.tally.heartbeats.Add(1)
	} else {
		c.tally.frames.Add(1)
	}
	if name := nameOf(c.method, c.tally.names); name != "" {
		c.tally.methods.add(name)
	}
	c.header, c.method = c.header[:0], c.method[:0]
}
