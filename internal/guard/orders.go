package guard

import (
	"net"
	"time"

	"berth/supervisor"
)

// connectionTo is the guard's end of the connection to its supervisor.
type connectionTo struct{ conn *net.UnixConn }

// tellTimeout bounds how long the guard may wait for a supervisor that does not
// read, for example a stopped one: killing the tree must not wait for that.
const tellTimeout = time.Second

// tell reports an event. A supervisor that is gone is found out by reading.
func (c connectionTo) tell(event supervisor.GuardEvent) {
	_ = c.conn.SetWriteDeadline(time.Now().Add(tellTimeout))
	_ = send(c.conn, event, nil)
}

// orders returns a channel of what the supervisor says. It is closed when the
// supervisor is dead, or says what cannot be understood. Its goroutine ends
// with the process.
func (c connectionTo) orders() <-chan order {
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
