package e2e

import (
	"bufio"
	"context"
	bigendian "encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"berth/test/relay"
)

// villain is between berths and the broker of the tests, whose frames it passes on to them until it is told to do harm.
type villain struct {
	relay *relay.Relay
	harm  atomic.Pointer[harm]
	did   atomic.Int64 // times that it has done it
}

// harm is done to a client, on every connection, once it is logged in.
type harm struct {
	after  uint32                                            // a method of the broker that has to come before it; 0: none
	say    [][]byte                                          // frames to say, before anything else
	over   bool                                              // and over again
	change func(method uint32, arguments []byte) (drop bool) // what to make of the broker's methods, in place
}

// newVillain returns a villain that does harm from the beginning, or none: nil.
func newVillain(t *testing.T, from *harm) *villain {
	t.Helper()
	v := &villain{}
	v.harm.Store(from)
	var err error
	v.relay, err = relay.New(relay.Config{To: calmBroker(t).Addr(), Pass: v.pass})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.relay.Close() })
	return v
}

func (v *villain) url(t *testing.T) string {
	return strings.Replace(calmBroker(t).URL(), calmBroker(t).Addr(), v.relay.Addr(), 1)
}

func (v *villain) pass(ctx context.Context, to, from net.Conn, toServer bool) {
	if toServer {
		_, _ = io.Copy(to, from)
		return
	}
	frames := make(chan []byte)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		for r := bufio.NewReader(from); ; {
			frame, err := readFrame(r)
			if err != nil {
				return
			}
			select {
			case frames <- frame:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer cancel()
	v.play(ctx, to, frames)
}

const (
	tuneMethod = 10<<16 | 30
	openOK     = 10<<16 | 41

	channelClose   = 20<<16 | 40
	channelCloseOK = 20<<16 | 41

	declareOK  = 50<<16 | 11
	selectOK   = 85<<16 | 11
	ackMethod  = 60<<16 | 80
	nackMethod = 60<<16 | 120
)

// play passes frames on, and does harm on channels that are open, until ctx ends.
func (v *villain) play(ctx context.Context, to io.Writer, frames <-chan []byte) {
	in, said, last := false, (*harm)(nil), uint32(0)
	open := map[uint16]bool{0: true}
	for {
		h, again := v.harm.Load(), false
		if in && h != nil && (h != said || h.over) && (h.after == 0 || h.after == last) {
			said = h
			v.did.Add(1) // also where berth cuts it short, and before it can have ended
			n, err := sayOn(open, to, h.say)
			if err != nil {
				return
			}
			again = h.over && n > 0
		}
		over := closedIf(again)
		select {
		case <-ctx.Done():
			return
		case <-over:
		case frame := <-frames:
			if frame[0] == 1 {
				method := bigendian.BigEndian.Uint32(frame[7:])
				in, last = in || method == openOK, method
				if channel := bigendian.BigEndian.Uint16(frame[1:]); channel > 0 {
					open[channel] = method != channelClose && method != channelCloseOK
				}
				if h != nil && h.change != nil && h.change(method, frame[11:len(frame)-1]) {
					v.did.Add(1)
					continue
				}
			}
			if _, err := to.Write(frame); err != nil {
				return
			}
		}
	}
}

// sayOn says those of the frames that are for open channels, and returns how many they are.
func sayOn(open map[uint16]bool, to io.Writer, frames [][]byte) (n int, err error) {
	for _, frame := range frames {
		if !open[bigendian.BigEndian.Uint16(frame[1:])] {
			continue
		}
		if _, err := to.Write(frame); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// closedIf returns a channel that is closed, or that is nil.
func closedIf(closed bool) <-chan struct{} {
	if !closed {
		return nil
	}
	c := make(chan struct{})
	close(c)
	return c
}

// readFrame returns a frame of at least the length of a method.
func readFrame(r io.Reader) ([]byte, error) {
	frame := make([]byte, 7, 64)
	if _, err := io.ReadFull(r, frame); err != nil {
		return nil, err
	}
	frame = append(frame, make([]byte, bigendian.BigEndian.Uint32(frame[3:])+1)...)
	_, err := io.ReadFull(r, frame[7:])
	return frame, err
}

// amqpFrame is a frame as a server says it.
func amqpFrame(kind byte, channel uint16, payload ...byte) []byte {
	frame := bigendian.BigEndian.AppendUint16([]byte{kind}, channel)
	frame = bigendian.BigEndian.AppendUint32(frame, uint32(len(payload)))
	return append(append(frame, payload...), 0xCE)
}

// amqpMethod is a method, on each of the channels that a berth opens unless it is one of the connection's.
func amqpMethod(method uint32, arguments ...byte) (frames [][]byte) {
	payload := append(bigendian.BigEndian.AppendUint32(nil, method), arguments...)
	if method>>16 == 10 {
		return [][]byte{amqpFrame(1, 0, payload...)}
	}
	for channel := range uint16(3) {
		frames = append(frames, amqpFrame(1, channel+1, payload...))
	}
	return frames
}

// peak is the most memory that berth has had so far, in bytes.
func (b *berth) peak() (n int64) {
	b.t.Helper()
	for _, line := range lines(fmt.Sprintf("/proc/%d/status", b.pid())) {
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &n); err == nil {
			return n << 10
		}
	}
	b.t.Fatal("it is not known how much memory berth has")
	return 0
}

// maxGrowth is how much more memory berth may have because of what a server says.
const maxGrowth = 64 << 20

// wantNoGrowth fails the test if berth has had much more memory than one that has connected to nothing.
func (b *berth) wantNoGrowth() {
	b.t.Helper()
	const usual = 20 << 20 // four times as much with the race detector
	most := int64(usual + maxGrowth)
	if os.Getenv(raceVariable) != "" {
		most += 3 * usual
	}
	if n := b.peak(); n > most {
		b.t.Errorf("berth has had %d MB", n>>20)
	}
}
