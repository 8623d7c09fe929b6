package administration

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"berth/lock"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/transport"
)

// leaveOther makes sure that a lock that is made is of one type alone. The ledgers of the other one say who held it: a
// command of a holder may still be about to end, and nobody would wait for it.
func (a *action) leaveOther(ctx context.Context) error {
	other := a.Other()
	most := slots.LargestBatch
	if !a.ID.Kind.Sized() {
		most = 1
	}
	rivals := a.Rivals()
	queues := slices.Concat(rivals, slots.Queues(other.Ledger, 1, most))
	if !other.Replicated() { // whoever has seen a slot may be about to make its ledger
		queues = append(queues, slots.Queues(other.Holds, 1, most)...)
	}
	var letters []transport.Letter
	for _, queue := range queues {
		m := transport.Message{Expiration: "0"} // nobody is to find it
		letters = append(letters, transport.Letter{Queue: queue, Message: m})
	}
	var found []transport.Presence
	err := a.publisher.Lend(ctx, func(c *transport.Channel) (err error) {
		found, err = c.Send(ctx, letters)
		return err
	})
	if errors.Is(err, transport.ErrUnanswered) && other.Replicated() { // whose ledgers are made with the slots
		found, err = nil, nil
	}
	if errors.Is(err, transport.ErrUnanswered) {
		return lock.Errorf(lock.ErrUnknown, "not known whether %s has had %s queues: %s; try again", a.ID, other.Type,
			err.Error())
	} else if err != nil {
		return err
	}
	if i := slices.IndexFunc(found, func(p transport.Presence) bool { return p != transport.Absent }); i >= 0 {
		flags := append([]string{"--wait", "--queue-type " + string(other.Type)}, a.Naming.Flags()...)
		return lock.Errorf(lock.ErrUnsafe, "%s has had %s queues, and has one of that time, %q: once no command of it runs "+
			"any more (%s), delete its ledgers, or use --queue-type %s", a.ID, other.Type, queues[i],
			a.ID.RemoveCommand(flags...), other.Type)
	}
	// What was published to a queue whose node is down comes back as well.
	for _, queue := range rivals {
		if err := a.channel.Find(ctx, queue); err == nil {
			return a.OfOtherType(queue)
		} else if !errors.Is(err, transport.ErrNoQueue) {
			return fmt.Errorf("not known whether %s has had %s queues: %w", a.ID, other.Type, err)
		}
	}
	return nil
}

// turnWaiters has those who wait for a lock of the other type look again, now that there are slots.
func (a *action) turnWaiters(ctx context.Context) {
	queue := a.Other().Waiters()
	if err := a.remove(ctx, a.Other(), queue); err != nil {
		a.dialer.Log.Warn("waiters could not be told of the new lock; they may take minutes to see it", "queue", queue,
			"error", err)
	}
}
