package main

import (
	"encoding/binary"
	"sync/atomic"
)

// AMQP 0-9-1, section 2.3.5: a frame is a type, a channel (2 bytes), the length
// of what follows (4), that, and an end byte.
const (
	frameHead      = 7
	frameEnd       = 1
	frameHeartbeat = 8
	greeting       = 8 // bytes that a client sends before its first frame
)

// traffic counts what has gone through a relay, heartbeats left out.
type traffic struct {
	up, down           atomic.Int64 // frames to the broker, and from it
	upBytes, downBytes atomic.Int64
}

// volume is traffic at one moment.
type volume struct{ up, down, bytes int64 }

func (t *traffic) volume() volume {
	return volume{t.up.Load(), t.down.Load(), t.upBytes.Load() + t.downBytes.Load()}
}

func (v volume) since(before volume) volume {
	return volume{v.up - before.up, v.down - before.down, v.bytes - before.bytes}
}

// frames counts the frames of one direction of a connection, whose bytes come in
// pieces of any length.
type frames struct {
	skip   int    // bytes that belong to the present frame, or to the greeting
	head   []byte // what has come of the next frame's head
	number *atomic.Int64
	bytes  *atomic.Int64
}

func (f *frames) feed(piece []byte) {
	for len(piece) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(piece))
			f.skip -= n
			piece = piece[n:]
			continue
		}
		n := min(frameHead-len(f.head), len(piece))
		f.head = append(f.head, piece[:n]...)
		piece = piece[n:]
		if len(f.head) < frameHead {
			return
		}
		f.skip = int(binary.BigEndian.Uint32(f.head[3:])) + frameEnd
		if f.head[0] != frameHeartbeat {
			f.number.Add(1)
			f.bytes.Add(int64(frameHead + f.skip))
		}
		f.head = f.head[:0]
	}
}
