// Package status looks at a lock from outside: which slots exist, who holds them, their successors, how many wait. It
// asks them themselves, and reads no ledger: a record that it had in hand would be missing to the successor.
package status

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"berth/lock"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/transport"
)

const (
	// For how long a ledger, or a line, or a lock that does not exist is not looked for again, unless something else says
	// that it was made: the broker logs each look that it refuses. Both are made once in the life of a lock.
	unmadeLedger = time.Minute
	unmadeLine   = 5 * time.Second
	// startTries bounds the attempts to ask a holder that has just started its command, with these pauses.
	startTries = 20
	startPause = 50 * time.Millisecond
	// maxSilences is how many questions without effect may stay unanswered for so long each before the other one is
	// asked all the same.
	maxSilences = 4
	silence     = 250 * time.Millisecond
)

// Inspector is lock.Inspector. New makes it. It has a connection that looks, and one that publishes: under an alarm the
// broker does not serve that.
type Inspector struct {
	names    names.Names // of the type that the lock has, as far as is known
	asked    names.Names // as configured
	plain    bool        // the lock has queues A and B, and nothing else: holders cannot be asked
	detectAt time.Time   // when to find out the type, should the lock have no slot
	dialer   *transport.Dialer
	channel  *transport.Channel // that looks; nil: not connected
	asker    *asker

	known  int                  // how many slots there were last time
	count  slots.Counter        // of these
	absent map[string]time.Time // queues that do not exist, and when to look for them again
	silent []string             // queues of those who have not answered in the last look
}

var _ lock.Inspector = (*Inspector)(nil)

// New returns an inspector that is not connected. It does no I/O. With plain the lock has queues A and B, and nothing
// else.
func New(n names.Names, d *transport.Dialer, plain bool) *Inspector {
	return &Inspector{
		names: n, asked: n, plain: plain, dialer: d, asker: &asker{publisher: transport.NewPublisher(d, "asking")},
		absent: map[string]time.Time{},
	}
}

// connect connects where that is necessary.
func (i *Inspector) connect(ctx context.Context) error {
	if err := i.names.ID.Check(); err != nil {
		return err
	}
	if i.channel == nil || i.channel.Conn().Broken() {
		conn, err := i.dialer.Dial(ctx, "looking")
		if err != nil {
			return err
		}
		i.channel = conn.Channel()
		clear(i.absent)
	}
	if i.plain || i.known > 0 && i.names.Type != "" || time.Now().Before(i.detectAt) {
		return nil
	}
	n, err := slots.DetectType(ctx, i.channel, i.asked)
	if errors.Is(err, lock.ErrAbsent) {
		i.detectAt = time.Now().Add(unmadeLine) // it may be made with other queues than it had
		return nil
	}
	if err == nil {
		i.names, i.detectAt = n, time.Now().Add(unmadeLine)
	}
	return err
}

// Close implements lock.Inspector.
func (i *Inspector) Close() error {
	i.asker.close()
	if i.channel != nil {
		i.channel.Conn().Close()
	}
	return nil
}

// Look implements lock.Inspector. Amid a handover it looks a second time. For those who were silent in the look before,
// it waits no longer than for others: who watches a lock is not to see changes late because somebody hangs.
func (i *Inspector) Look(ctx context.Context) (lock.Status, error) {
	if err := i.connect(ctx); err != nil {
		return lock.Status{Waiting: -1}, err
	}
	l := look{Inspector: i, patience: soon}
	err := l.run(ctx)
	if err == nil && !subset(l.silent, i.silent) {
		l = look{Inspector: i, patience: patience}
		err = l.run(ctx)
	}
	if err != nil {
		return lock.Status{Waiting: -1}, err
	}
	i.silent = l.silent
	return l.status(), nil
}

// subset reports whether all of some queues are among others.
func subset(some, others []string) bool {
	return !slices.ContainsFunc(some, func(queue string) bool { return !slices.Contains(others, queue) })
}

// Ask implements lock.Inspector. A holder whose command has just started can be asked a moment later: it is the reader
// then, and stays that until it has B. So a slot without a reader whose B is absent after that was seen has no holder.
// And B gets no question before its holder consumes from it. One that has no effect is asked until
// it is answered, so that the other need not be asked twice: a second one might be accepted by a successor.
func (i *Inspector) Ask(ctx context.Context, slot int, verb lock.Verb) (answer []byte, err error) {
	if i.plain {
		return nil, i.cannotAskPlain(slot, verb)
	}
	if err := i.connect(ctx); err != nil {
		return nil, err
	}
	silences, deserted := 0, false
	for try := 1; ; try++ {
		heard := silences < 0 || silences == maxSilences
		question := lock.AskStatus
		if heard {
			question = verb
		}
		found, answer, err := i.askOnce(ctx, slot, question, heard)
		switch {
		case err != nil:
			return nil, err
		case found && answer != nil && question == verb:
			return answer, nil
		case found && answer == nil && (heard || ctx.Err() != nil):
			return nil, lock.Errorf(lock.ErrUnknown, "slot %d of %s: its holder does not answer: it is cut "+
				"off or stopped, or your user is none of its administrators (--admins)", slot, i.names.ID)
		case found && answer != nil:
			silences = -1
			continue
		case found:
			silences++
			continue
		case deserted || try >= startTries:
			return nil, lock.Errorf(lock.ErrAbsent, "slot %d of %s is not held", slot, i.names.ID)
		}
		_, consumers, err := i.channel.Count(ctx, i.names.Ledger(slot))
		if err != nil && !errors.Is(err, transport.ErrNoQueue) {
			return nil, err
		}
		if deserted = consumers == 0; deserted {
			continue
		}
		if err := transport.Sleep(ctx, startPause); err != nil {
			return nil, err
		}
	}
}

// cannotAskPlain is the outcome where nobody consumes what would be asked.
func (i *Inspector) cannotAskPlain(slot int, verb lock.Verb) error {
	remedy := "send TERM to its berth"
	if verb == lock.AskReload {
		remedy = "use berth reload --pid on its host"
	}
	return lock.Errorf(lock.ErrAbsent, "cannot ask the holder of slot %d of %s for %q: with --protocol plain no "+
		"berth can be asked; %s", slot, i.names.ID, string(verb), remedy)
}

// askOnce asks the owner of B, and returns whether there is one, and the answer, nil if none has come: before ctx ends,
// or, unless it is the last question, for a moment.
func (i *Inspector) askOnce(ctx context.Context, slot int, verb lock.Verb, last bool) (found bool, answer []byte,
	err error) {
	queue := i.names.Holds(slot)
	if i.names.Replicated() { // its ledger is always there, and its holder reads it
		queue = i.names.Ledger(slot)
		if _, consumers, err := i.channel.Count(ctx, queue); err != nil || consumers == 0 {
			return false, nil, err
		}
	}
	asked, err := i.asker.ask(ctx, verb, []string{queue})
	switch {
	case err != nil && (errors.Is(err, lock.ErrDenied) || ctx.Err() != nil):
		return false, nil, err
	case err != nil:
		return false, nil, lock.Errorf(lock.ErrUnknown, "slot %d of %s: %s", slot, i.names.ID, cannotAsk(err))
	case asked.found[0] == transport.Unknown:
		return false, nil, lock.Errorf(lock.ErrUnknown, "the broker cannot say whether slot %d of %s is held", slot,
			i.names.ID)
	case asked.found[0] == transport.Absent:
		return false, nil, nil
	}
	if !last {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, silence)
		defer cancel()
	}
	return true, i.asker.await(ctx, asked, 1)[0], nil
}

// cannotAsk says in one sentence why nobody can be asked.
func cannotAsk(err error) string {
	why := strings.TrimPrefix(err.Error(), transport.ErrUnanswered.Error()+": ")
	return "berths cannot be asked: " + strings.TrimPrefix(why, "cannot publish: ")
}

// consumers returns how many messages and consumers a queue has that is made when it is first needed. One that does
// not exist is not looked for again for that long.
func (i *Inspector) consumers(ctx context.Context, queue string, unmade time.Duration) (
	messages, consumers int, err error) {
	if time.Now().Before(i.absent[queue]) {
		return 0, 0, nil
	}
	messages, consumers, err = i.channel.Count(ctx, queue)
	if errors.Is(err, transport.ErrNoQueue) {
		i.absent[queue] = time.Now().Add(unmade)
		return 0, 0, nil
	}
	return messages, consumers, err
}
