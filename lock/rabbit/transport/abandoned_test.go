package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock/rabbit/broker"
)

// said is a frame of a server.
func said(kind byte, channel uint16, payload ...byte) []byte {
	frame := binary.BigEndian.AppendUint16([]byte{kind}, channel)
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(payload)))
	return append(append(frame, payload...), 0xCE)
}

// method begins a method.
func method(class, number byte, arguments ...byte) []byte {
	return append([]byte{0, class, 0, number}, arguments...)
}

// letters is how many messages are sent.
const letters = 100

// late lets one client in. All messages come back, once it also wants a new secret.
func late(c net.Conn) {
	defer c.Close()
	answers := map[string][]byte{
		string(method(10, 11)): said(1, 0, method(10, 30, make([]byte, 8)...)...),
		string(method(10, 40)): said(1, 0, method(10, 41, 0)...),
		string(method(20, 10)): said(1, 1, method(20, 11, 0, 0, 0, 0)...),
		string(method(85, 10)): said(1, 1, method(85, 11)...),
	}
	_, _ = io.ReadFull(c, make([]byte, 8))
	_, _ = c.Write(said(1, 0, method(10, 10, 0, 9, 0, 0, 0, 0, 0, 0, 0, 5, 'P', 'L', 'A', 'I', 'N', 0, 0, 0, 0)...))
	var back bytes.Buffer
	for published, wanted := byte(0), false; ; {
		frame := make([]byte, 7)
		if _, err := io.ReadFull(c, frame); err != nil {
			return
		}
		frame = append(frame, make([]byte, binary.BigEndian.Uint32(frame[3:])+1)...)
		if _, err := io.ReadFull(c, frame[7:]); err != nil {
			return
		}
		switch called := frame[7:11]; {
		case frame[0] != 1:
			continue
		case bytes.Equal(called, method(60, 40)):
			published++
			key := frame[14:][:1+frame[14]]
			back.Write(said(1, 1, method(60, 50, append([]byte{1, 56, 0, 0}, key...)...)...))
			back.Write(said(2, 1, append([]byte{0, 60}, make([]byte, 12)...)...))
		case bytes.Equal(called, method(10, 70)):
			wanted = true
		default:
			_, _ = c.Write(answers[string(called)])
		}
		if wanted && published == letters {
			back.Write(said(1, 1, method(60, 80, 0, 0, 0, 0, 0, 0, 0, letters, 1)...))
			_, _ = back.WriteTo(c)
		}
	}
}

// What comes back while the connection is being abandoned goes to whoever drains it: that it does not reach who waits
// for it says nothing.
func TestQueueIsNotCalledPresentOnAConnectionThatIsAbandoned(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			late(c)
		}
	}()
	node, err := broker.Parse("amqp://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	d := Dialer{Brokers: []broker.Node{node}, Heartbeat: time.Minute, Log: hclog.NewNullLogger()}
	c, err := d.DialOne(t.Context(), node, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	channel := c.Channel()
	if err := channel.do(t.Context(), probing, channel.confirmMode); err != nil {
		t.Fatal(err)
	}
	c.cut.Store(true) // as Abandon does; what came before it has cut the socket is still read
	go c.end()
	sent := make([]Letter, letters)
	for i := range sent {
		sent[i].Queue = strconv.Itoa(i)
	}
	found, err := channel.Send(t.Context(), sent)
	if !errors.Is(err, ErrUnanswered) {
		t.Errorf("%v, %v; want no answer", found, err)
	}
}
