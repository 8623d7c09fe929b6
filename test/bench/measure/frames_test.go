package measure

import (
	"bytes"
	"encoding/binary"
	"io"
	"maps"
	"net"
	"slices"
	"testing"
	"time"
)

// frame returns a frame as it goes over the wire.
func frame(kind byte, payload string) []byte {
	f := []byte{kind, 0, 1}
	f = binary.BigEndian.AppendUint32(f, uint32(len(payload)))
	return append(append(f, payload...), frameEnd)
}

// conversation is what a client says: header, 4 frames, 2 heartbeats. A payload
// may look like anything, the end of a frame included.
var conversation = bytes.Join([][]byte{
	[]byte("AMQP\x00\x00\x09\x01"),
	frame(1, "start-ok"), frame(frameHeartbeat, ""), frame(1, ""), frame(2, "\xce\x08\xce"),
	frame(3, string(make([]byte, 70_000))), frame(frameHeartbeat, ""),
}, nil)

func TestFramesAreCountedInWhateverPiecesTheyCome(t *testing.T) {
	for _, size := range []int{1, 2, 3, 5, 7, 8, 9, 16, 4096, len(conversation)} {
		var counts tally
		c := &frameCounter{tally: &counts, skip: protocolHeader}
		for rest := conversation; len(rest) > 0; {
			n := min(size, len(rest))
			if _, err := c.Write(rest[:n]); err != nil {
				t.Fatalf("pieces of %d: %v", size, err)
			}
			rest = rest[n:]
		}
		if frames, heartbeats := counts.frames.Load(), counts.heartbeats.Load(); frames != 4 || heartbeats != 2 {
			t.Errorf("pieces of %d: %d frames and %d heartbeats, not 4 and 2", size, frames, heartbeats)
		}
	}
}

// method returns a frame of a class and a method, with arguments.
func method(class, method byte, arguments string) []byte {
	return frame(1, string([]byte{0, class, 0, method})+arguments)
}

// declaration returns queue.declare with flags.
func declaration(name string, flags byte) []byte {
	arguments := "\x00\x00" + string([]byte{byte(len(name))}) + name + string([]byte{flags})
	return method(50, 10, arguments+"\x00\x00\x00\x00")
}

func TestMethodsAreCountedInWhateverPiecesTheyCome(t *testing.T) {
	long := string(bytes.Repeat([]byte("n"), 255))
	said := bytes.Join([][]byte{
		method(10, 40, "\x01/\x00\x00"), method(20, 10, "\x00"), method(60, 40, "\x00\x00\x00\x01n\x01"),
		frame(2, "\x00\x3c\x00\x28 looks like basic.publish and is a header"), method(60, 40, "\x00\x00\x00\x01n\x01"),
		declaration("n", passive), declaration("", exclusive|1<<4), declaration(long, passive|1<<1), declaration(long, 1<<1),
		method(99, 99, ""), frame(frameHeartbeat, ""), frame(1, ""),
	}, nil)
	want := map[Method]int{
		ConnectionOpen: 1, ChannelOpen: 1, Publish: 2, DeclarePassive: 2, DeclareExclusive: 1, DeclareOther: 1,
	}
	for _, size := range []int{1, 3, 8, 64, len(said)} {
		counts := tally{names: asked}
		c := &frameCounter{tally: &counts}
		for piece := range slices.Chunk(said, size) {
			if _, err := c.Write(piece); err != nil {
				t.Fatalf("pieces of %d: %v", size, err)
			}
		}
		got := map[Method]int{}
		if counts.methods.copyTo(got); !maps.Equal(got, want) {
			t.Errorf("pieces of %d: %v, not %v", size, got, want)
		}
	}
}

func TestAFrameCountsOnceItIsComplete(t *testing.T) {
	var counts tally
	c := &frameCounter{tally: &counts}
	whole := frame(1, "payload")
	last := len(whole) - 1
	if _, err := c.Write(whole[:last]); err != nil || counts.frames.Load() != 0 {
		t.Errorf("%d frames before the last byte: %v", counts.frames.Load(), err)
	}
	if _, err := c.Write(whole[last:]); err != nil || counts.frames.Load() != 1 {
		t.Errorf("%d frames after the last byte: %v", counts.frames.Load(), err)
	}
}

func TestWhatIsNoFrameIsNotCounted(t *testing.T) {
	var counts tally
	spoilt := frame(1, "payload")
	spoilt[len(spoilt)-1] = 0
	if _, err := (&frameCounter{tally: &counts}).Write(spoilt); err == nil {
		t.Error("a frame without its end is taken")
	}
}

func TestRelayCountsBothDirections(t *testing.T) {
	broker, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	answer := append(method(60, 60, "tag"), frame(frameHeartbeat, "")...)
	heard := make(chan []byte, 1)
	go func() {
		defer close(heard)
		c, err := broker.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		got := make([]byte, len(conversation))
		_, _ = io.ReadFull(c, got)
		_, _ = c.Write(answer)
		heard <- got
	}()
	r, err := NewRelay("amqp://guest:guest@" + broker.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	client, err := net.Dial("tcp", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Write(conversation); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(client)
	if err != nil || !bytes.Equal(got, answer) {
		t.Errorf("the client hears % x: %v", got, err)
	}
	if !bytes.Equal(<-heard, conversation) {
		t.Error("the broker hears something else than what the client said")
	}
	counted, err := r.Count()
	if want := (Messages{Requests: 4, Keepalives: 2, Answers: 1}); err != nil || counted != want {
		t.Errorf("counted %+v, not %+v: %v", counted, want, err)
	}
	methods, err := r.Methods(t.Context())
	if want := (map[Method]int{Deliver: 1}); err != nil || !maps.Equal(methods, want) {
		t.Errorf("counted %v, not %v: %v", methods, want, err)
	}
}
