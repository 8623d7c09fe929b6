package administration

import (
	"context"
	"errors"
	"fmt"

	"berth/lock"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/transport"
)

// leaveOther makes sure that a lock that is made has no rivals. The ledgers of the other type say who held it: a command
// of a holder may still be about to end, and nobody would wait for it.
func (a *action) leaveOther(ctx context.Context) error {
	other := a.names.Other()
	most := slots.LargestBatch
	if !a.names.ID.Kind.Sized() {
		most = 1
	}
	rivals := a.names.RivalSigns()
	var used []names.Sign // that the lock has had queues of the other type
	for slot := 1; slot <= most; slot++ {
		used = append(used, names.Sign{Of: other, Queue: other.Ledger(slot)})
		if !other.Replicated() { // a berth that has seen a slot may be about to make its ledger
			used = append(used, names.Sign{Of: other, Queue: other.Holds(slot)})
		}
	}
	signs := append(used, rivals...)
	var found []transport.Presence
	var err error
	if a.delay == 0 { // otherwise it publishes nothing, and has no ledgers
		found, err = a.probe(ctx, signs)
	}
	switch {
	case other.Replicated() && (errors.Is(err, transport.ErrUnanswered) || errors.Is(err, lock.ErrDenied)):
		// The ledgers of that type are made with the slots, and looked at below.
	case errors.Is(err, transport.ErrUnanswered):
		return lock.Errorf(lock.ErrUnknown, "not known whether %s has had %s queues: %s; try again", a.names.ID, other.Type,
			err.Error())
	case err != nil:
		return err
	}
	for i, p := range found {
		switch sign := signs[i]; {
		case p == transport.Absent:
		case i < len(used):
			flags := append([]string{"--wait", "--queue-type " + string(other.Type)}, a.names.Naming.Flags()...)
			return lock.Errorf(lock.ErrUnsafe, "%s has had %s queues, and has one of that time, %q: once no command of it runs "+
				"any more (%s), delete its ledgers, or use --queue-type %s", a.names.ID, other.Type, sign.Queue,
				a.names.ID.RemoveCommand(flags...), other.Type)
		default:
			return a.names.Beside(sign)
		}
	}
	// What was published to a queue whose node is down comes back as well.
	for _, sign := range rivals {
		if err := a.channel.Find(ctx, sign.Queue); err == nil {
			return a.names.Beside(sign)
		} else if !errors.Is(err, transport.ErrNoQueue) {
			return fmt.Errorf("not known whether %s has had %s queues: %w", a.names.ID, other.Type, err)
		}
	}
	return nil
}

// probe probes queues that may keep what is published to them: the messages expire before a berth finds them.
func (a *action) probe(ctx context.Context, signs []names.Sign) (found []transport.Presence, err error) {
	var letters []transport.Letter
	for _, sign := range signs {
		letters = append(letters, transport.Letter{Queue: sign.Queue, Message: transport.Message{Expiration: "0"}})
	}
	err = a.publisher.Lend(ctx, func(c *transport.Channel) (err error) {
		found, err = c.Send(ctx, letters)
		return err
	})
	return found, err
}

// turnWaiters has the waiters for the rivals of a new lock look again: for the same lock, now that it has slots.
func (a *action) turnWaiters(ctx context.Context) {
	for _, rival := range a.names.Rivals() {
		if rival.ID.Kind == lock.Mutex { // whose waiters make it
			continue
		}
		queue := rival.Waiters()
		if err := a.remove(ctx, rival, queue); err != nil {
			a.dialer.Log.Warn("waiters could not be told of the new lock; they may take minutes to see it", "queue", queue,
				"error", err)
		}
	}
}
