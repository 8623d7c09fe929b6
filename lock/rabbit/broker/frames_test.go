package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// wire is a connection from which is read what a server says.
type wire struct {
	net.Conn
	io.Reader
}

func (wire) Write(data []byte) (int, error)  { return len(data), nil }
func (wire) Close() error                    { return nil }
func (w wire) Read(data []byte) (int, error) { return w.Reader.Read(data) }
func said(frames ...[]byte) wire             { return wire{Reader: bytes.NewReader(slices.Concat(frames...))} }
func framed(kind byte, channel uint16, payload ...byte) []byte {
	frame := append([]byte{kind}, binary.BigEndian.AppendUint16(nil, channel)...)
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(payload)))
	return append(append(frame, payload...), frameEnd)
}

func calls(channel, class, number uint16, arguments ...byte) []byte {
	return framed(frameMethod, channel, append([]byte{byte(class >> 8), byte(class), byte(number >> 8), byte(number)},
		arguments...)...)
}

func confirms(number uint16, tag uint64, multiple byte) []byte {
	return calls(1, 60, number, append(binary.BigEndian.AppendUint64(nil, tag), multiple)...)
}

// content is the header of a message with properties of that length.
func content(channel uint16, body uint64, properties int) []byte {
	payload := append([]byte{0, 60, 0, 0}, binary.BigEndian.AppendUint64(nil, body)...)
	return framed(frameHeader, channel, append(payload, make([]byte, 2+properties)...)...)
}

var (
	starts   = calls(0, 10, 10, 0, 9, 0, 0, 0, 0, 0, 0, 0, 5, 'P', 'L', 'A', 'I', 'N', 0, 0, 0, 0)
	tunes    = calls(0, 10, 30, 0, 0, 0, 0, 32, 0, 0, 0) // frames of 8192 bytes
	opens    = calls(0, 10, 41, 0)
	in       = slices.Concat(starts, tunes, opens)
	delivers = calls(1, 60, 60, 1, 't', 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 'q')
	closes   = calls(1, 20, 40, 1, 148, 1, 'x', 0, 50, 0, 10)
	beat     = framed(frameHeartbeat, 0)
)

// speaking says what one says that opens channel 1, and publishes so many messages there, in pieces of that size.
func speaking(f *frames, messages, size int) {
	all := slices.Concat([]byte("AMQP\x00\x00\x09\x01"), calls(0, 10, 11), calls(0, 10, 31), calls(0, 10, 40, 1, '/', 0, 0),
		calls(1, 20, 10, 0), calls(1, 85, 10, 0), beat)
	for range messages {
		all = slices.Concat(all, calls(1, 60, 40, 0, 0, 0, 1, 'q', 1), content(1, 0, 0))
	}
	for piece := range slices.Chunk(all, size) {
		_, _ = f.Write(piece)
	}
}

// passed reads all of it, after the client has published so many messages.
func passed(t *testing.T, messages int, from io.Reader) ([]byte, error) {
	t.Helper()
	f := newFrames(wire{Reader: from}, newSocket(nil))
	speaking(f, messages, 1000)
	got, err := io.ReadAll(f)
	if cap(f.frame) > frameMax || f.from.Size() > frameMax {
		t.Errorf("it keeps %d bytes", cap(f.frame))
	}
	return got, err
}

func TestWhatABrokerSaysIsPassedOn(t *testing.T) {
	all := slices.Concat(in, beat, calls(1, 20, 11, 0, 0, 0, 0), calls(1, 85, 11), confirms(80, 3, 1), confirms(120, 2, 0),
		calls(1, 60, 50, 1, 56, 1, 'x', 0, 1, 'q'), content(1, 0, 100), delivers, content(1, 0, 8192-8-14),
		closes, calls(0, 10, 51))
	for name, from := range map[string]io.Reader{"at once": bytes.NewReader(all), "in bytes": iotest.OneByteReader(bytes.NewReader(all))} {
		if got, err := passed(t, 3, from); err != nil || !bytes.Equal(got, all) {
			t.Errorf("%s: %v; passed on: %q, said: %q", name, err, got, all)
		}
	}
}

func TestBlockingIsToldBesideTheFrames(t *testing.T) {
	socket := newSocket(nil)
	from := said(in, calls(0, 10, 60, 1, 'x'), calls(0, 10, 61), calls(0, 10, 60, 1, 'x'))
	if got, err := io.ReadAll(newFrames(from, socket)); err != nil || !bytes.Equal(got, slices.Concat(in, beat, beat, beat)) {
		t.Errorf("%v; passed on: %q", err, got)
	}
	if len(socket.Blocked) != 1 || !<-socket.Blocked {
		t.Error("that it is blocked is not told")
	}
}

// A stranger may publish what it likes to a queue that a holder consumes from.
func TestBodiesAndLargePropertiesAreDropped(t *testing.T) {
	piece := framed(frameBody, 1, make([]byte, 8000)...)
	all := slices.Concat(in, delivers, content(1, 0, 5), delivers, content(1, 16000, 5), piece, piece, confirms(80, 1, 0),
		delivers, content(1, math.MaxInt64, 1<<20), framed(frameBody, 1), beat)
	want := slices.Concat(in, delivers, content(1, 0, 5), delivers, content(1, 0, 0), beat, beat, confirms(80, 1, 0),
		delivers, content(1, 0, 0), bytes.Repeat(beat, 1<<20/skipped+1), beat)
	if got, err := passed(t, 3, bytes.NewReader(all)); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v; passed on: %q, want %q", err, got, want)
	}
}

func TestBreachOfTheProtocolEndsTheConnection(t *testing.T) {
	long := binary.BigEndian.AppendUint32([]byte{frameMethod, 0, 0}, math.MaxUint32)
	unended := slices.Clone(beat)
	unended[7] = 0
	for name, c := range map[string]struct {
		frames []byte
		says   string
	}{
		"HTTP":                           {[]byte("HTTP/1.1 400 Bad Request\r\n"), "type 72"},
		"frame of 4 GB":                  {long, "4294967295 bytes"},
		"start that is too long":         {calls(0, 10, 10, make([]byte, 5000)...), "4088"},
		"method that is too long":        {slices.Concat(in, calls(1, 50, 11, make([]byte, 9000)...)), "8184"},
		"table that is longer":           {calls(0, 10, 10, 0, 9, 0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0), "10.10"},
		"table that cannot be read":      {calls(0, 10, 10, 0, 9, 0, 0, 0, 2, 0, 'Z', 0, 0, 0, 0, 0, 0, 0, 0), "10.10"},
		"string that is longer":          {slices.Concat(in, calls(1, 60, 21, 9, 'x')), "60.21"},
		"method without arguments":       {calls(0, 10, 10), "10.10"},
		"method that is too short":       {framed(frameMethod, 0, 0, 10), "number"},
		"method with more":               {slices.Concat(in, calls(0, 10, 61, 0)), "10.61"},
		"method of a client":             {slices.Concat(in, calls(1, 60, 40, 0, 0, 0, 0, 0)), "60.40"},
		"method of no class":             {calls(0, 11, 11), "11.11"},
		"challenge":                      {slices.Concat(starts, calls(0, 10, 20, 0, 0, 0, 0)), "10.20"},
		"confirm on the first channel":   {slices.Concat(in, calls(0, 85, 11)), "85.11"},
		"blocking on another channel":    {slices.Concat(in, calls(3, 10, 61)), "channel 3"},
		"channel before the login":       {slices.Concat(starts, calls(1, 20, 11, 0, 0, 0, 0)), "channel 1"},
		"blocking before the login":      {slices.Concat(starts, calls(0, 10, 60, 0)), "10.60"},
		"content before the login":       {slices.Concat(starts, framed(frameBody, 1)), "content"},
		"header on the first channel":    {slices.Concat(in, content(0, 0, 0)), "channel 0"},
		"body on the first channel":      {slices.Concat(in, framed(frameBody, 0)), "channel 0"},
		"channel that is not open":       {slices.Concat(in, calls(2, 50, 31, 0, 0, 0, 0)), "channel 2"},
		"channel that nobody opens":      {slices.Concat(in, calls(2, 20, 11, 0, 0, 0, 0)), "channel 2"},
		"channel that it has closed":     {slices.Concat(in, closes, confirms(80, 1, 0)), "channel 1"},
		"second login":                   {slices.Concat(in, starts), "10.10"},
		"second tuning":                  {slices.Concat(in, tunes), "10.30"},
		"confirm of what was never sent": {slices.Concat(in, confirms(80, math.MaxUint64, 1)), "18446744073709551615"},
		"nack of what was never sent":    {slices.Concat(in, confirms(120, 26, 0)), "26"},
		"more returns than messages":     {slices.Concat(in, bytes.Repeat(calls(1, 60, 50, 0, 0, 0, 0, 0), 26)), "26"},
		"heartbeat with content":         {framed(frameHeartbeat, 0, 1), "type 8"},
		"header that is too short":       {slices.Concat(in, framed(frameHeader, 1, 0, 60)), "2 bytes"},
		"frame without an end":           {unended, "0x0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := passed(t, 25, io.MultiReader(bytes.NewReader(c.frames), endless{}))
			var broken *breach
			if !errors.As(err, &broken) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v; want one that says %q", err, c.says)
			}
		})
	}
}

// endless has something to read for ever.
type endless struct{}

func (endless) Read(data []byte) (int, error) { return len(data), nil }

func TestFrameSizeIsAsTheLibraryAgreesOnIt(t *testing.T) {
	for server, want := range map[uint32]uint32{0: frameMax, 1: frameMin, 4096: 4096, 65535: 65535, math.MaxUint32: frameMax} {
		if got := agreed(server); got != want {
			t.Errorf("a server that says %d: %d, want %d", server, got, want)
		}
	}
}

// repeated is the same for ever.
type repeated struct {
	what []byte
	at   int
}

func (r *repeated) Read(data []byte) (n int, err error) {
	for n < len(data) {
		k := copy(data[n:], r.what[r.at:])
		n, r.at = n+k, (r.at+k)%len(r.what)
	}
	return n, nil
}

// A confirm, and a delivery of some 200 bytes.
func BenchmarkFrames(b *testing.B) {
	f := newFrames(wire{Reader: io.MultiReader(bytes.NewReader(in),
		&repeated{what: slices.Concat(confirms(80, 1, 0), delivers, content(1, 0, 150))})}, newSocket(nil))
	speaking(f, 1, 1000)
	data := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		for range 3 {
			if _, err := f.Read(data); err != nil {
				b.Fatal(err)
			}
		}
	}
}
