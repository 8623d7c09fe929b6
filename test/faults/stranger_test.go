package faults

import (
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// stranger is a client that is no berth and takes a queue for itself as soon as
// nobody else has it.
type stranger struct {
	t     testing.TB
	conn  *amqp.Connection
	has   chan struct{} // closed once the queue is its own
	ended chan struct{} // closed once it does not try any more
}

// newStranger begins to try. The caller calls leave.
func newStranger(t testing.TB, url, queue string) *stranger {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatalf("a stranger cannot connect: %v", err)
	}
	s := &stranger{t: t, conn: conn, has: make(chan struct{}), ended: make(chan struct{})}
	go s.try(queue)
	return s
}

// try ends with the queue or with the connection.
func (s *stranger) try(queue string) {
	defer close(s.ended)
	for {
		channel, err := s.conn.Channel()
		if err == nil {
			_, err = channel.QueueDeclare(queue, false, false, true, false, nil)
		}
		refused := new(amqp.Error)
		switch {
		case err == nil:
			close(s.has)
			return
		case s.conn.IsClosed():
			return
		case !errors.As(err, &refused) || refused.Code != amqp.ResourceLocked:
			s.t.Errorf("a stranger tries to take %s: %v", queue, err)
			return
		}
	}
}

// got reports whether it has obtained the queue, and waits for that for a while.
func (s *stranger) got(bound time.Duration) bool {
	select {
	case <-s.has:
		return true
	case <-s.ended:
		return false
	case <-time.After(bound):
		return false
	}
}

// leave gives the queue back.
func (s *stranger) leave() {
	_ = s.conn.CloseDeadline(time.Now().Add(patience))
	<-s.ended
}
