// Package session keeps the connection of one contender, and decides over which one it publishes. It knows nothing of
// locks.
//
// One connection is enough. Under a memory or disk alarm RabbitMQ goes on serving a connection that published before
// and does not publish now. So a contender publishes before its command starts and after its tree is dead; what it
// has to publish in between goes over another connection that is closed again. A contender that the broker has
// blocked while it may still publish comes back and publishes over another.
package session

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"berth/lock"
	"berth/lock/rabbit/transport"
)

// Session is the connection of one contender, and of the slot that it holds. Connect and Close are called one at a
// time, the others from several goroutines. New makes it.
type Session struct {
	Lender transport.Lender  // publishes over the connection that may
	Dialer *transport.Dialer // connects

	publisher *transport.Publisher // the other connection
	prober    *transport.Publisher // a third one, for probes in transactions
	link      atomic.Pointer[link] // nil before the first Connect
	silent    atomic.Bool          // a command may be alive: see KeepSilent
	apart     atomic.Bool          // the broker has blocked a connection of ours for publishing
	kin       kin                  // the nodes over which a slot may be reclaimed
	permitted bool                 // see Permitted, which is called with Connect in turn
	away      bool                 // an attempt to connect has failed since the last connection; likewise
}

// link is one connection of a session.
type link struct {
	main, side *transport.Channel
	since      time.Time // when it was made; of one that follows an error inside the broker: that one, and so for again
	again      bool      // the broker may have been away before it
}

// New returns a session that is not connected. Close ends it.
func New(d *transport.Dialer) *Session {
	s := &Session{
		Dialer: d, publisher: transport.NewPublisher(d, "publisher"), prober: transport.NewPublisher(d, "prober"),
	}
	s.Lender = s.lend
	return s
}

// Probe is transport.Lender.Probe.
func (s *Session) Probe(ctx context.Context, queues []string) ([]transport.Presence, error) {
	return s.probes().Probe(ctx, queues)
}

// ProbeOne is transport.Lender.ProbeOne.
func (s *Session) ProbeOne(ctx context.Context, queue string) (transport.Presence, error) {
	return s.probes().ProbeOne(ctx, queue)
}

// probes returns the way to probe. A transaction in which a queue is just going can cost its connection: RabbitMQ 4.3
// closes it with 506, "failed to deliver message".
func (s *Session) probes() transport.Lender {
	if s.Dialer.Probing == transport.ByTx {
		return s.prober.Lender
	}
	return s.Lender
}

// Conn returns the connection, nil before the first Connect.
func (s *Session) Conn() *transport.Conn {
	if l := s.link.Load(); l != nil {
		return l.main.Conn()
	}
	return nil
}

// Main returns the channel that reads ledgers and publishes. There is none before the first Connect.
func (s *Session) Main() *transport.Channel { return s.link.Load().main }

// Side returns the channel for what the broker may refuse: a refusal ends what else a channel does. There is none
// before the first Connect.
func (s *Session) Side() *transport.Channel { return s.link.Load().side }

// Usable reports whether there is a connection, and the broker serves it.
func (s *Session) Usable() bool {
	conn := s.Conn()
	return conn != nil && !conn.Broken() && !s.Blocked()
}

// Blocked reports whether the broker, because of an alarm, does not serve the connection any more. Connect then makes
// another.
func (s *Session) Blocked() bool {
	conn := s.Conn()
	return conn != nil && transport.IsClosed(conn.Blocked())
}

// Begin says what keeps an attempt at something from being made; nil: nothing does. holds says that the contender has a
// slot.
func (s *Session) Begin(what string, holds bool) error {
	switch conn := s.Conn(); {
	case holds:
		return fmt.Errorf("cannot %s: this contender holds a slot of it already; release it first", what)
	case conn == nil:
		return lock.Errorf(lock.ErrUnreachable, "cannot %s: not connected", what)
	case !s.Usable():
		return conn.BrokenError("cannot " + what)
	}
	return nil
}

// Outcome is that of an attempt that has failed: a connection that the broker has blocked is of no use any more.
func (s *Session) Outcome(err error) error {
	if s.Blocked() {
		return lock.Errorf(lock.ErrUnreachable, "%s", err.Error())
	}
	return err
}

// blocking is what an alarm of the broker is called.
const blocking = "the broker blocks publishers, because of an alarm"

// Alarm says that the broker is under an alarm, as far as this session has noticed: "" if it has not. Who does not
// publish is not told.
func (s *Session) Alarm() string {
	if s.apart.Load() || s.Blocked() || s.prober.Blocked() {
		return blocking
	}
	return ""
}

// Connect connects where that is necessary. Errors: as transport.Dialer.Dial.
func (s *Session) Connect(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("cannot connect: %w", err) // and leave the order of the nodes as it is
	}
	if s.Usable() {
		return nil
	}
	last := s.Conn()
	if last != nil {
		if s.Blocked() {
			s.apart.Store(true)
			s.Dialer.Log.Info("publishing over another connection", "because", blocking)
		} else if last.Abandoned() {
			// A node that did not answer is not the first to be asked again. One that has closed or reset the
			// connection answers: another may be silent, and a slot is to be reclaimed in time.
			s.Dialer.MoveOn()
		}
		last.Abandon()
	}
	conn, err := s.Dialer.Dial(ctx, "holding")
	if err != nil {
		s.away = true
		return err
	}
	s.use(conn.Channel())
	return nil
}

func (s *Session) use(main *transport.Channel) {
	conn := main.Conn()
	s.Dialer.Log.Debug("connected", "broker", conn.Label())
	last := s.link.Load()
	next := &link{main: main, side: conn.Channel(), since: time.Now(), again: last != nil}
	if last != nil && !s.away && last.main.Conn().JustFailed() && last.main.Conn().Label() == conn.Label() {
		next.since, next.again = last.since, last.again
	}
	s.link.Store(next)
	s.away = false
}

// ConnectOver is Connect with the main channel of a connection that was made in its place already.
func (s *Session) ConnectOver(ctx context.Context, made *transport.Channel) error {
	if !made.Conn().Broken() {
		s.Conn().Abandon()
		s.use(made)
	}
	return s.Connect(ctx)
}

// Returned reports whether this contender has just come back to a broker that may have been killed meanwhile. Then a
// ledger that does not exist proves nothing: such a broker can have lost a queue that it had just confirmed.
func (s *Session) Returned() bool {
	l := s.link.Load()
	return l.again && time.Since(l.since) < 2*l.main.Conn().Heartbeat()
}

// KeepSilent says whether a command may be alive that this connection holds the slot for: nothing is published over
// it then, and both channels wait for every answer, because to give one up means to cut the connection. And nothing but
// the cluster of this connection is connected to.
func (s *Session) KeepSilent(silent bool) {
	s.silent.Store(silent)
	s.Main().BePatient(silent)
	s.Side().BePatient(silent)
	s.stay(silent)
}

// Aside returns another channel of the connection that claims, which is as patient as its others are now.
func (s *Session) Aside() *transport.Channel {
	c := s.Conn().Channel()
	c.BePatient(s.silent.Load())
	return c
}

// Apart reports whether publishing needs another connection now.
func (s *Session) Apart() bool {
	return s.silent.Load() || s.apart.Load() || !s.Usable()
}

// lend lends the own channel where that may publish, and otherwise that of another connection, which is closed again.
// An alarm is over once that one is answered.
func (s *Session) lend(ctx context.Context, use func(*transport.Channel) error) error {
	if !s.Apart() {
		return use(s.Main())
	}
	err := s.publisher.Lend(ctx, use)
	if s.publisher.Close() && err == nil {
		s.apart.Store(false)
	}
	return err
}

// Close ends the connections cleanly, or cuts them. It takes transport.CloseTimeout at most, and more only if something
// is just being published. The error says that the broker has not confirmed the end of the connection that claims.
func (s *Session) Close() error {
	defer s.publisher.Close()
	defer s.prober.Close()
	defer s.kin.comparing.Wait()
	s.stay(false)
	if conn := s.Conn(); conn != nil && !conn.Close() {
		return fmt.Errorf("the connection to %s was cut, because the broker did not confirm its end", conn.Label())
	}
	return nil
}
