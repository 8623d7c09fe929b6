// Package session keeps the connections of one contender: one that owns what it
// claims and never publishes, and a publisher. It knows nothing of locks.
package session

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock/rabbit/transport"
)

// Session is the connections of one contender, and of the slot that it holds. Its
// methods are called one at a time. New makes it.
type Session struct {
	Publisher *transport.Publisher

	dialer  *transport.Dialer
	conn    *transport.Conn
	claims  *transport.Channel
	since   time.Time // when conn was made
	renewed bool      // conn is not the first one
	log     hclog.Logger
}

// New returns a session that is not connected. Close ends it.
func New(d *transport.Dialer) *Session {
	publish := func(ctx context.Context) (*transport.Conn, error) { return d.Dial(ctx, "publisher") }
	return &Session{Publisher: transport.NewPublisher(publish), dialer: d, log: d.Log}
}

// Conn returns the connection that claims, nil before the first Connect.
func (s *Session) Conn() *transport.Conn { return s.conn }

// Claims returns the channel for claiming, and for all that belongs to winning and
// giving back. It is nil before the first Connect.
func (s *Session) Claims() *transport.Channel { return s.claims }

// Connected reports whether there is a connection of any use.
func (s *Session) Connected() bool { return s.conn != nil && !s.conn.Broken() }

// Connect connects where that is necessary. The publisher connects beside it:
// winning a slot needs both. Errors: as transport.Dialer.Dial.
func (s *Session) Connect(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("cannot connect: %w", err) // and leave the order of the nodes as it is
	}
	if s.Connected() {
		return nil
	}
	if s.conn != nil {
		// A node that did not answer is not the first to be asked again. One that
		// has closed or reset the connection answers: another may be silent, and a
		// slot is to be reclaimed in time.
		if s.conn.Abandoned() {
			s.dialer.MoveOn()
		}
		s.conn.Abandon()
		s.conn = nil
	}
	s.Publisher.Connect()
	conn, err := s.dialer.Dial(ctx, "holding")
	if err != nil {
		return err
	}
	s.log.Debug("connected", "broker", conn.Label())
	s.renewed = !s.since.IsZero()
	s.conn, s.claims, s.since = conn, conn.Channel(), time.Now()
	return nil
}

// Returned reports whether this contender has just come back to a broker that
// it was connected to before. Then a ledger that does not exist proves nothing:
// a broker that was killed can lose a queue that it had just confirmed.
func (s *Session) Returned() bool {
	return s.renewed && time.Since(s.since) < 2*s.conn.Heartbeat()
}

// Close ends the connections in order, or cuts them, and reports whether the broker
// has confirmed the end of the one that claims. It takes transport.CloseTimeout at
// most, and more only if something is just being published.
func (s *Session) Close() (confirmed bool) {
	published := make(chan struct{})
	go func() {
		defer close(published)
		s.Publisher.Close()
	}()
	confirmed = true
	if s.Connected() {
		confirmed = s.conn.Close()
	}
	<-published
	if s.conn != nil {
		s.conn.Abandon()
		<-s.conn.Done()
		s.conn = nil
	}
	return confirmed
}
