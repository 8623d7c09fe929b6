package main

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
	frameHeartbeat = 8

	protocolHeader = 8 // what a client sends before its first frame
)

// tally is what was counted on all connections in one direction.
type tally struct {
	frames, heartbeats atomic.Int64
}

// frameCounter counts the frames of one connection in one direction. It is
// written what goes over it, in whatever pieces.
type frameCounter struct {
	tally  *tally
	skip   int // bytes before the next frame: the protocol header
	header []byte
	left   int // of the payload and the byte that ends the frame, once the header is complete
}

// newFrameCounter counts frames that come after so many other bytes.
func newFrameCounter(t *tally, after int) *frameCounter {
	return &frameCounter{tally: t, skip: after, header: make([]byte, 0, frameHeader)}
}

// Write counts. It fails over what is not a frame.
func (c *frameCounter) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 {
		switch {
		case c.skip > 0:
			n := min(c.skip, len(p))
			c.skip, p = c.skip-n, p[n:]
		case c.left == 0:
			n := min(frameHeader-len(c.header), len(p))
			c.header, p = append(c.header, p[:n]...), p[n:]
			if len(c.header) == frameHeader {
				c.left = int(binary.BigEndian.Uint32(c.header[3:])) + 1
			}
		default:
			n := min(c.left, len(p))
			last := p[n-1]
			c.left, p = c.left-n, p[n:]
			if c.left > 0 {
				continue
			}
			if last != frameEnd {
				return 0, fmt.Errorf("lost count: a frame of type %d ends with %#x and not with %#x", c.header[0], last, frameEnd)
			}
			c.count()
		}
	}
	return written, nil
}

func (c *frameCounter) count() {
	if c.header[0] == frameHeartbeat {
		c.tally.heartbeats.Add(1)
	} else {
		c.tally.frames.Add(1)
	}
	c.header = c.header[:0]
}
