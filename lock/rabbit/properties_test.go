package rabbit_test

import (
	"bytes"
	"net"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

// replacing is a connection that writes something else in place of a text.
type replacing struct {
	net.Conn
	text, by string
}

func (r replacing) Write(data []byte) (int, error) {
	_, err := r.Conn.Write(bytes.ReplaceAll(data, []byte(r.text), []byte(r.by)))
	return len(data), err
}

// A broker takes more properties than amqp091-go can read.
func TestPropertiesOfAStrangerEndNoConnection(t *testing.T) {
	t.Parallel()
	outsider(t) // which makes the user
	dial := func(network, addr string) (net.Conn, error) {
		c, err := net.Dial(network, addr)
		return replacing{c, "64 bits" + "l", "64 bits" + "L"}, err
	}
	conn, err := amqp.DialConfig(shared.URLFor("stranger", "right", "/"), amqp.Config{Dial: dial})
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	ch, err := conn.Channel()
	must(t, err)
	must(t, ch.Confirm(false))
	deep := any("x")
	for range 40 {
		deep = []any{deep}
	}
	for name, properties := range map[string]amqp.Table{
		"nested":          {"x": deep},
		"many":            {"x": make([]any, 10_000)},
		"of another type": {"64 bits": int64(7)},
	} {
		t.Run(name, func(t *testing.T) {
			id := fresh(lock.Mutex)
			_, h := holding(t, id, long)
			next := refused(t, at(shared.URL()), id)
			woken := untilWoken(t, next)
			awaitSuccessor(t, id)
			for _, queue := range []string{id.Name + "-1-B", id.Name + "-1-T"} {
				confirm, err := ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{Headers: properties})
				must(t, err)
				confirmed, err := confirm.WaitContext(within(t))
				must(t, err)
				if !confirmed {
					t.Fatal("the broker has not taken it")
				}
			}
			must(t, h.Verify(within(t)))
			connections(t, id, 2)
			must(t, h.Release(within(t)))
			must(t, <-woken)
		})
	}
}
