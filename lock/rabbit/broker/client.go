package broker

import (
	"encoding/binary"
	"sync"
)

// client is what the client of a connection has said, as far as that decides what the server may say: amqp091-go starts
// a goroutine for each method on a channel that it does not know. Its methods may be called from several goroutines.
type client struct {
	mu        sync.Mutex
	begun     []byte          // of a frame, until its method is known; guarded by mu
	rest      int             // how much of a frame is to come; guarded by mu
	published uint64          // messages; guarded by mu
	channels  map[uint16]bool // that are open; true: the client closes it; guarded by mu
}

const protocolHeader = 8 // the length of what a client says before its first frame

func newClient() *client { return &client{rest: protocolHeader, channels: map[uint16]bool{}} }

// says takes some of what the client writes.
func (c *client) says(data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(data) > 0 {
		if n := min(c.rest, len(data)); n > 0 {
			c.rest, data = c.rest-n, data[n:]
			continue
		}
		c.begun, data = append(c.begun, data[0]), data[1:]
		if n := len(c.begun); n == 11 || n == 7 && c.begun[0] != frameMethod {
			c.rest = frameRest + int(binary.BigEndian.Uint32(c.begun[3:])) - n
			c.note(c.begun)
			c.begun = c.begun[:0]
		}
	}
}

// note notes the method of a frame that begins like this.
func (c *client) note(frame []byte) {
	if frame[0] != frameMethod {
		return
	}
	on := binary.BigEndian.Uint16(frame[1:])
	switch numbered(frame[7:]) {
	case channelOpen:
		c.channels[on] = false
	case channelClose:
		c.channels[on] = true
	case publish:
		c.published++
	}
}

// hears takes a method of the server, and reports whether its channel is open. An answer to a close that has crossed the
// server's own may come late.
func (c *client) hears(channel uint16, is method) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	closing, open := c.channels[channel]
	if is == channelClose || is == channelClosed && closing {
		delete(c.channels, channel)
	}
	return open || is == channelClosed
}

// sent is how many messages it has published.
func (c *client) sent() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.published
}
