package e2e

import (
	"bytes"
	bigendian "encoding/binary"
	"math"
	"slices"
	"syscall"
	"testing"
)

// longest is a number of 64 bits.
var longest = bytes.Repeat([]byte{0xFF}, 8)

// header is that of a message with a body of that size.
func header(channel uint16, size uint64) []byte {
	return amqpFrame(2, channel, append(bigendian.BigEndian.AppendUint64([]byte{0, 60, 0, 0}, size), 0, 0)...)
}

// returns are messages that come back on each channel.
func returns() (frames [][]byte) {
	for n, method := range amqpMethod(60<<16|50, 1, 56, 0, 0, 1, 'q') {
		frames = append(frames, method, header(uint16(n)+1, 0))
	}
	return frames
}

// deliver is the method with which a message begins, on each channel.
func deliver(consumer string) [][]byte {
	arguments := append([]byte{byte(len(consumer))}, consumer...)
	return amqpMethod(60<<16|60, append(arguments, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 'q')...)
}

// bodies are of messages that do not end.
func bodies() (frames [][]byte) {
	for n, method := range deliver("q") {
		body := amqpFrame(3, uint16(n)+1, make([]byte, 100_000)...)
		frames = append(append(frames, method, header(uint16(n)+1, 1<<62)), slices.Repeat([][]byte{body}, 1500)...)
	}
	return frames
}

// deliveries are messages with a body for each consumer of a mutex.
func deliveries(name string) (frames [][]byte) {
	for _, queue := range []string{name + "-1-B", name + "-1-T", name + "-W"} {
		for n, method := range deliver(queue) {
			frames = append(frames, method, header(uint16(n)+1, 50_000),
				amqpFrame(3, uint16(n)+1, make([]byte, 50_000)...))
		}
	}
	return frames
}

// Whatever a server says to a holder: berth obeys TERM, ends, and leaves nothing behind.
func TestHolderWhoseServerMeansIllEnds(t *testing.T) {
	t.Parallel()
	name := unique("m")
	saying := func(frames ...[][]byte) harm { return harm{say: slices.Concat(frames...)} }
	publisher := func(frames ...[][]byte) harm { return harm{after: ackMethod, say: slices.Concat(frames...)} }
	over := func(frames ...[][]byte) harm { return harm{say: slices.Concat(frames...), over: true} }
	for what, c := range map[string]harm{
		"confirm of everything":   publisher(amqpMethod(ackMethod, append(longest, 1)...)),
		"nack of everything":      publisher(amqpMethod(nackMethod, append(longest, 1)...)),
		"endless confirms":        over(amqpMethod(ackMethod, 0, 0, 0, 0, 0, 0, 0, 1, 0)),
		"endless returns":         over(returns()),
		"a hundred returns":       publisher(slices.Repeat(returns(), 30)),
		"endless deliveries":      over(deliveries(name)),
		"endless bodies":          saying(bodies()),
		"endless heartbeats":      over([][]byte{amqpFrame(8, 0)}),
		"endless closes":          over(amqpMethod(20<<16|40, 1, 64, 1, 'x', 0, 0, 0, 0)),
		"end of each connection":  saying(amqpMethod(10<<16|50, 1, 64, 1, 'x', 0, 0, 0, 0)),
		"blocking and unblocking": over(amqpMethod(10<<16|60, 1, 'x'), amqpMethod(10<<16|61)),
		"answers to nothing":      saying(amqpMethod(declareOK, 1, 'q', 0, 0, 0, 0, 0, 0, 0, 0), amqpMethod(selectOK)),
		"endless answers":         over(amqpMethod(declareOK, 1, 'q', 0, 0, 0, 0, 0, 0, 0, 0)),
		"a new secret":            saying(amqpMethod(10<<16 | 71)),
		"a method of 4 GB":        saying([][]byte{bigendian.BigEndian.AppendUint32([]byte{1, 0, 1}, math.MaxUint32)}),
		"no confirms": {change: func(method uint32, _ []byte) bool {
			return method == ackMethod || method == nackMethod
		}},
		"no answers": {change: func(uint32, []byte) bool { return true }},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			v := newVillain(t, nil)
			m := name
			if what != "endless deliveries" {
				m = unique("m")
			}
			b := start(t, "run", "--broker", v.url(t), "--mutex", m, "--verify-interval", "200ms", "--", "sh", "-c", plain)
			b.awaitRuns(1)
			v.harm.Store(&c)
			if c.after == 0 && what != "no confirms" { // which takes one that publishes, as it does at its end
				until(t, "harm is done", func() bool { return v.did.Load() > 100 || v.did.Load() > 0 && !c.over })
			}
			b.wantNoGrowth()
			b.signal(syscall.SIGTERM)
			until(t, "berth ends", b.ended)
			if v.did.Load() == 0 {
				t.Error("no harm was done")
			}
			b.wantStatus(143)
			b.wantNothingLeft()
		})
	}
}
