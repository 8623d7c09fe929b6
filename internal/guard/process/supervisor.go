package process

import (
	"errors"
	"os"
	"time"

	"berth/internal/guard/wire"
)

// supervisor is the guard's side of the connection to it.
type supervisor struct {
	conn         *wire.Conn
	unresponsive bool // it did not read the last event in time; for example, it is stopped
}

// minTimeout is for a supervisor that did not read before.
const minTimeout = time.Millisecond

// tell reports an event, and waits for as long at most until the supervisor has
// room for it. One that is gone is found out by reading. It reports whether the event is on its way.
func (s *supervisor) tell(event wire.Event, timeout time.Duration) (told bool) {
	err := s.conn.Send(event, nil, max(timeout, minTimeout))
	s.unresponsive = errors.Is(err, os.ErrDeadlineExceeded)
	return err == nil
}

// order waits for what the supervisor says. An error is the supervisor's end, or that it
// says what cannot be understood.
func (s *supervisor) order() (o wire.Order, err error) {
	files, err := s.conn.Receive(&o)
	o.Files = files
	return o, err
}

// orders returns a channel of what order returns, closed after an error. Its goroutine
// ends with the process.
func (s *supervisor) orders() <-chan wire.Order {
	orders := make(chan wire.Order)
	go func() {
		defer close(orders)
		for {
			o, err := s.order()
			if err != nil {
				return
			}
			orders <- o
		}
	}()
	return orders
}
