package transport

import (
	"bytes"
	"errors"
	"net"
	"slices"
	"strconv"
	"testing"
)

// What comes back while the connection is being abandoned goes to the goroutine that drains it: that it does not reach
// the one that waits for it says nothing.
func TestQueueIsNotCalledPresentOnAConnectionThatIsAbandoned(t *testing.T) {
	const letters = 100
	d := serving(t, func(c net.Conn) func([]byte) { // all comes back, once a new secret was sent
		var back bytes.Buffer
		published, wanted := 0, false
		return func(payload []byte) {
			switch {
			case bytes.HasPrefix(payload, method(60, 40)):
				published++
				queue := payload[7:][:1+payload[7]]
				back.Write(said(1, 1, method(60, 50, append([]byte{1, 56, 0, 0}, queue...)...)...))
				back.Write(said(2, 1, append([]byte{0, 60}, make([]byte, 12)...)...))
			case bytes.HasPrefix(payload, method(10, 70)):
				wanted = true
			}
			if wanted && published == letters {
				back.Write(said(1, 1, method(60, 80, 0, 0, 0, 0, 0, 0, 0, letters, 1)...))
				_, _ = back.WriteTo(c)
			}
		}
	})
	c, err := d.Dial(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	channel := c.Channel()
	if err := channel.do(t.Context(), probing, channel.confirmMode); err != nil {
		t.Fatal(err)
	}
	c.cut.Store(true) // as Abandon does; what has come before it cuts the socket is still read
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

// amqp091-go 1.16 panics where it tells of an alarm while somebody else ends the connection.
func TestAlarmThatIsToldWhileAConnectionEndsIsNoCrash(t *testing.T) {
	alarms := slices.Repeat(slices.Concat(said(1, 0, method(10, 60, 1, 'x')...), said(1, 0, method(10, 61)...)), 100)
	d := serving(t, func(c net.Conn) func([]byte) {
		return func(payload []byte) {
			if bytes.HasPrefix(payload, method(10, 50)) {
				_, _ = c.Write(slices.Concat(said(1, 0, method(10, 51)...), alarms))
			}
		}
	})
	for range 100 {
		c, err := d.Dial(t.Context(), "test")
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
}
