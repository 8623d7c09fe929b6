package plain

import (
	"context"
	"errors"

	"berth/lock"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/transport"
)

// Inspector is lock.Inspector. It sees which slots are held, and not by whom. NewInspector makes it.
type Inspector struct {
	names     names.Names
	dialer    *transport.Dialer
	channel   *transport.Channel // that looks; nil: not connected
	publisher *transport.Publisher
	count     slots.Counter
}

var _ lock.Inspector = (*Inspector)(nil)

// NewInspector returns an inspector that is not connected. It does no I/O.
func NewInspector(n names.Names, d *transport.Dialer) *Inspector {
	return &Inspector{names: n, dialer: d, publisher: transport.NewPublisher(d, "asking")}
}

// Look implements lock.Inspector.
func (i *Inspector) Look(ctx context.Context) (lock.Status, error) {
	s := lock.Status{Waiting: -1}
	if err := i.names.ID.Check(); err != nil {
		return s, err
	}
	if i.channel == nil || i.channel.Conn().Broken() {
		conn, err := i.dialer.Dial(ctx, "looking")
		if err != nil {
			return s, err
		}
		i.channel = conn.Channel()
	}
	count, err := i.count.Count(ctx, i.names, i.channel, i.publisher.Lender)
	if err != nil {
		return s, err
	}
	for from := 1; from <= count; from += slots.LargestBatch {
		held, err := i.see(ctx, slots.Queues(i.names.Holds, from, min(from+slots.LargestBatch-1, count)))
		if err != nil {
			return s, err
		}
		for n, b := range held {
			s.Slots = append(s.Slots, slotStatus(from+n, b))
		}
	}
	return s, nil
}

// see probes queues, or looks them up where probes are not answered.
func (i *Inspector) see(ctx context.Context, queues []string) (found []transport.Presence, err error) {
	found, err = i.publisher.Probe(ctx, queues)
	if errors.Is(err, transport.ErrUnanswered) {
		return i.channel.LookAll(ctx, queues)
	}
	return found, err
}

func slotStatus(slot int, b transport.Presence) lock.SlotStatus {
	switch b {
	case transport.Present:
		return lock.SlotStatus{Slot: slot, State: lock.SlotHeld, Problem: "its holder cannot be asked with --protocol plain"}
	case transport.Absent:
		return lock.SlotStatus{Slot: slot, State: lock.SlotFree}
	}
	return lock.SlotStatus{Slot: slot, State: lock.SlotUnknown, Problem: "the broker cannot say whether it is held"}
}

// Ask implements lock.Inspector: nobody consumes what would be asked.
func (i *Inspector) Ask(_ context.Context, slot int, verb lock.Verb) ([]byte, error) {
	remedy := "send TERM to its berth"
	if verb == lock.AskReload {
		remedy = "use berth reload --pid on its host"
	}
	return nil, lock.Errorf(lock.ErrAbsent, "cannot ask the holder of slot %d of %s for %q: with --protocol plain no "+
		"berth can be asked; %s", slot, i.names.ID, string(verb), remedy)
}

// Close implements lock.Inspector.
func (i *Inspector) Close() error {
	i.publisher.Close()
	if i.channel != nil {
		i.channel.Conn().Close()
	}
	return nil
}
