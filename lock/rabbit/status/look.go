package status

import (
	"context"
	"errors"
	"slices"
	"time"

	"berth/lock"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/transport"
)

// maxWaiting is how many messages may lie in a ledger to which a question is published: it has room for records, and
// its consumer reads.
const maxWaiting = 100

// look is one Look. Its slices have what is known of slot s at s-1.
type look struct {
	*Inspector
	patience time.Duration // for answers

	readers []transport.Presence // whether there is a reader
	held    []transport.Presence // whether somebody has B
	holders []*lock.Report       // that have B; nil: no answer
	others  []*lock.Report       // that are readers; nil: no answer
	silent  []string             // queues of those who have not answered
	waiting int
	trouble string // why nobody was asked; "": they were
}

func (l *look) run(ctx context.Context) (err error) {
	if l.known, err = l.count.Count(ctx, l.names, l.channel, l.asker.publisher.Lender); err != nil {
		return err
	}
	if l.plain {
		return l.runPlain(ctx)
	}
	var asked []int // slots with a reader
	for slot := 1; slot <= l.known; slot++ {
		reader, reads, err := l.reader(ctx, slot)
		if err != nil {
			return err
		}
		l.readers = append(l.readers, reader)
		if reads {
			asked = append(asked, slot)
		}
	}
	l.held = make([]transport.Presence, l.known)
	l.holders, l.others = make([]*lock.Report, l.known), make([]*lock.Report, l.known)
	if err := l.ask(ctx, asked); err != nil {
		return err
	}
	for n, held := range l.held {
		if held != transport.Absent {
			delete(l.absent, l.names.Ledger(n+1)) // it was made since
		}
	}
	return l.line(ctx)
}

// runPlain sees which slots are held, and not by whom.
func (l *look) runPlain(ctx context.Context) error {
	l.waiting, l.trouble = -1, "its holder cannot be asked with --protocol plain"
	l.readers = slices.Repeat([]transport.Presence{transport.Absent}, l.known)
	l.holders, l.others = make([]*lock.Report, l.known), make([]*lock.Report, l.known)
	for batch := range slices.Chunk(slots.Queues(l.names.Holds, 1, l.known), slots.LargestBatch) {
		found, err := l.asker.publisher.Probe(ctx, batch)
		if errors.Is(err, transport.ErrUnanswered) {
			found, err = l.channel.LookAll(ctx, batch)
		}
		if err != nil {
			return err
		}
		l.held = append(l.held, found...)
	}
	return nil
}

// reader returns whether a slot is read, and whether a question would be read there.
func (l *look) reader(ctx context.Context, slot int) (reader transport.Presence, reads bool, err error) {
	messages, consumers, err := l.consumers(ctx, l.names.Ledger(slot), unmadeLedger)
	switch {
	case errors.Is(err, lock.ErrUnknown), errors.Is(err, transport.ErrTaken):
		return transport.Unknown, false, nil
	case err != nil:
		return transport.Unknown, false, err
	case consumers == 0 && messages == 0 && l.names.Replicated():
		return transport.Unknown, false, nil // which is what the broker says where most of the queue's nodes are gone
	case consumers == 0:
		return transport.Absent, false, nil
	}
	return transport.Present, messages < maxWaiting, nil
}

// ask finds out who holds slots by asking them, and the readers of these. Where nothing can be published,
// it looks.
func (l *look) ask(ctx context.Context, readers []int) error {
	queues := slots.Queues(l.names.Holds, 1, l.known)
	for _, slot := range readers {
		queues = append(queues, l.names.Ledger(slot))
	}
	if l.known == 0 {
		return nil
	}
	asked, err := l.asker.ask(ctx, lock.AskStatus, queues)
	if err != nil && (errors.Is(err, lock.ErrDenied) || ctx.Err() != nil) {
		return err
	} else if err != nil {
		l.trouble = cannotAsk(err)
		return l.seeHeld(ctx)
	}
	copy(l.held, asked.found)
	answers := 0
	for _, p := range asked.found {
		if p == transport.Present {
			answers++
		}
	}
	bounded, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	texts := l.asker.await(bounded, asked, answers)
	for n, text := range texts {
		if text == nil && asked.found[n] == transport.Present {
			l.silent = append(l.silent, queues[n])
		}
		if n < l.known {
			l.holders[n] = report(text)
		} else {
			l.others[readers[n-l.known]-1] = report(text)
		}
	}
	return ctx.Err()
}

// seeHeld looks at B of one slot after the other. The broker answers that under an alarm too.
func (l *look) seeHeld(ctx context.Context) error {
	found, err := l.channel.LookAll(ctx, slots.Queues(l.names.Holds, 1, l.known))
	copy(l.held, found)
	return err
}

// line counts who waits. The successor for a slot of a semaphore consumes twice.
func (l *look) line(ctx context.Context) error {
	successors := 0
	for _, reader := range l.readers {
		if reader == transport.Present {
			successors++
		}
	}
	if successors > 0 {
		delete(l.absent, l.names.Waiters()) // it was made since
	}
	ready, consumers, err := l.consumers(ctx, l.names.Waiters(), unmadeLine)
	switch {
	case errors.Is(err, lock.ErrUnknown), errors.Is(err, transport.ErrTaken), errors.Is(err, lock.ErrDenied):
		l.waiting = -1
		return nil
	case err != nil:
		return err
	}
	l.waiting = consumers
	switch {
	case l.names.Replicated(): // a quorum queue also counts consumers with a message in hand
		l.waiting = max(consumers-max(l.known-ready, 0), 0)
	case l.names.ID.Kind == lock.Semaphore:
		l.waiting = max(consumers-successors, min(consumers, successors))
	}
	return nil
}

func (l *look) status() lock.Status {
	s := lock.Status{Waiting: l.waiting}
	for slot := 1; slot <= l.known; slot++ {
		s.Slots = append(s.Slots, l.slot(slot))
	}
	return s
}

// slot puts together what is known of one slot. Who starts is its reader before it has B; who waits for a holder that
// has gone without a word can have B before it starts.
func (l *look) slot(slot int) lock.SlotStatus {
	held, reader, holder, other := l.held[slot-1], l.readers[slot-1], l.holders[slot-1], l.others[slot-1]
	s := lock.SlotStatus{Slot: slot, State: lock.SlotHeld}
	hasReader := reader == transport.Present
	if hasReader && (held == transport.Absent && other != nil && other.Slot == slot || same(holder, other)) {
		holder, other, hasReader, held = other, nil, false, transport.Present
	} else if holder != nil && holder.Slot != slot && !hasReader {
		holder, other, hasReader, held = nil, holder, true, transport.Absent
	}
	s.Holder, s.Successor, s.HasSuccessor = holder, other, hasReader
	switch {
	case held == transport.Unknown:
		s.State, s.Problem = lock.SlotUnknown, "the broker cannot say whether it is held"
	case held == transport.Absent && reader == transport.Unknown:
		s.State, s.Problem = lock.SlotUnknown, "the broker cannot say whether a berth is about to start"
	case held == transport.Absent && !hasReader:
		s.State = lock.SlotFree
	case l.trouble != "":
		s.Problem = l.trouble
	case held == transport.Absent && other == nil:
		s.Problem = "a berth that has just started, or is about to, does not answer"
	case held == transport.Absent:
		s.Problem = "its holder has gone; the successor starts as soon as the command is certainly dead"
	case holder == nil:
		s.Problem = "its holder does not answer; the name of its connection to the broker has its host and pid"
	case hasReader && other == nil:
		s.Problem = "the successor does not answer"
	}
	return s
}

// same reports whether both are the same process.
func same(a, b *lock.Report) bool {
	return a != nil && b != nil && a.Holder == b.Holder && a.Host == b.Host && a.PID == b.PID
}

// report reads an answer; nil: there is none.
func report(text []byte) *lock.Report {
	if text == nil {
		return nil
	}
	r, err := lock.ReadReport(text)
	if err != nil {
		return nil
	}
	return &r
}
