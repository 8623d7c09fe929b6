package guard

import (
	"errors"
	"net"
	"os"
	"time"

	"berth/supervisor"
)

// connectionTo is the guard's end of the connection to its supervisor.
type connectionTo struct {
	conn *net.UnixConn
	deaf bool // the supervisor did not read the last event
}

// tellTimeout bounds how long the guard may wait for a supervisor that does not
// read, for example a stopped one. deafTimeout is for one that did not read before.
const (
	tellTimeout = time.Second
	deafTimeout = time.Millisecond
)

// tell reports an event, and waits for as long at most until the supervisor has
// room for it. One that is gone is found out by reading.
func (c *connectionTo) tell(event supervisor.GuardEvent, patience time.Duration) {
	_ = c.conn.SetWriteDeadline(time.Now().Add(max(patience, deafTimeout)))
	c.deaf = errors.Is(send(c.conn, event, nil), os.ErrDeadlineExceeded)
}

// orders returns a channel of what the supervisor says. It is closed when the
// supervisor is dead, or says what cannot be understood. Its goroutine ends
// with the process.
func (c *connectionTo) orders() <-chan order {
	orders := make(chan order)
	go func() {
		defer close(orders)
		in := newInbox(c.conn)
		for {
			var o order
			files, err := in.receive(&o)
			if err != nil {
				return
			}
			o.files = files
			orders <- o
		}
	}()
	return orders
}
