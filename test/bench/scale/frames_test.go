package main

import (
	"slices"
	"testing"
)

func frame(kind byte, payload int) []byte {
	f := []byte{kind, 0, 1, 0, 0, byte(payload >> 8), byte(payload)}
	return append(append(f, make([]byte, payload)...), 0xCE)
}

func TestFramesAreCountedHoweverTheyArriveAndHeartbeatsAreNot(t *testing.T) {
	stream := slices.Concat([]byte("AMQP\x00\x00\x09\x01"),
		frame(1, 20), frame(8, 0), frame(2, 0), frame(3, 300), frame(8, 0), frame(1, 4))
	const want, wantBytes = 4, 4*8 + 20 + 300 + 4
	for size := 1; size <= len(stream); size++ {
		var r traffic
		f := frames{skip: greeting, number: &r.up, bytes: &r.upBytes}
		for part := range slices.Chunk(stream, size) {
			f.feed(part)
		}
		if v := r.volume(); v.up != want || v.bytes != wantBytes {
			t.Fatalf("in pieces of %d: %d frames of %d bytes, want %d of %d", size, v.up, v.bytes, want, wantBytes)
		}
	}
}
