package transport

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
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

// method begins with the numbers of a method.
func method(class, number byte, arguments ...byte) []byte {
	return append([]byte{0, class, 0, number}, arguments...)
}

// serving returns a way to a server that lets everybody in, opens their channels, and has somebody hear the other methods
// that they say. begin is called once each is in.
func serving(t *testing.T, begin func(c net.Conn) (hear func(payload []byte))) *Dialer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c, begin)
		}
	}()
	node, err := broker.Parse("amqp://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	nodes := []broker.Node{node}
	return &Dialer{Brokers: nodes, Logins: broker.NewLogins(broker.Source{}, nodes), Heartbeat: time.Minute, Name: "test",
		Log: hclog.NewNullLogger()}
}

func serve(c net.Conn, begin func(net.Conn) func([]byte)) {
	defer c.Close()
	_, _ = io.ReadFull(c, make([]byte, 8))
	_, _ = c.Write(said(1, 0, method(10, 10, 0, 9, 0, 0, 0, 0, 0, 0, 0, 5, 'P', 'L', 'A', 'I', 'N', 0, 0, 0, 0)...))
	var hear func([]byte)
	for {
		frame := make([]byte, 7)
		if _, err := io.ReadFull(c, frame); err != nil {
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(frame[3:])+1)
		if _, err := io.ReadFull(c, payload); err != nil {
			return
		}
		calls := func(class, number byte) bool { return frame[0] == 1 && bytes.HasPrefix(payload, method(class, number)) }
		switch {
		case calls(10, 11):
			_, _ = c.Write(said(1, 0, method(10, 30, make([]byte, 8)...)...))
		case calls(10, 40):
			_, _ = c.Write(said(1, 0, method(10, 41, 0)...))
			hear = begin(c)
		case calls(20, 10):
			_, _ = c.Write(said(1, 1, method(20, 11, 0, 0, 0, 0)...))
		case calls(85, 10):
			_, _ = c.Write(said(1, 1, method(85, 11)...))
		case frame[0] == 1 && hear != nil:
			hear(payload)
		}
	}
}
