package administration

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"berth/lock"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/transport"
)

// createReplicated makes a slot on several nodes. Its ledger comes first: where that is new, it says that nobody has
// held the slot, so that the first one need not wait for anybody.
func (a *action) createReplicated(ctx context.Context, slot int) error {
	err := a.channel.Find(ctx, a.Ledger(slot))
	if errors.Is(err, transport.ErrNoQueue) {
		err = a.channel.CreateReplicated(ctx, a.Ledger(slot), names.ReplicatedLength, true)
		if err == nil {
			err = a.writeFirst(ctx, slot)
		}
	}
	if err != nil && !errors.Is(err, transport.ErrDiffers) {
		return err
	}
	if err = a.channel.Find(ctx, a.Exists(slot)); !errors.Is(err, transport.ErrNoQueue) {
		return err // it is a leftover
	}
	return a.channel.CreateReplicated(ctx, a.Exists(slot), 0, false)
}

// writeFirst writes what a ledger begins with. Without that, its first reader waits for as long as anybody may live.
func (a *action) writeFirst(ctx context.Context, slot int) error {
	var letters []transport.Letter
	for _, m := range ledger.First(rand.Text()) {
		letters = append(letters, transport.Letter{Queue: a.Ledger(slot), Message: m})
	}
	err := a.publisher.Lend(ctx, func(c *transport.Channel) error {
		_, err := c.Send(ctx, letters)
		return err
	})
	if errors.Is(err, transport.ErrUnanswered) {
		a.dialer.Log.Warn("the slot's ledger could not be written: its first holder waits for two minutes", "slot", slot,
			"error", err)
		return nil
	}
	return err
}

// leaveOther makes sure that a lock that is made is of one type alone. The ledgers of the other one say who held it: a
// command of a holder may still be about to end, and nobody would wait for it.
func (a *action) leaveOther(ctx context.Context) error {
	other := a.other()
	queues := slots.Queues(other.Ledger, 1, slots.LargestBatch)
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
	if errors.Is(err, transport.ErrUnanswered) {
		return lock.Errorf(lock.ErrUnknown, "not known whether %s has had %s queues: %s; try again", a.ID, other.Type,
			err.Error())
	} else if err != nil {
		return err
	}
	if i := slices.IndexFunc(found, func(p transport.Presence) bool { return p != transport.Absent }); i >= 0 {
		flags := append([]string{"--wait", "--queue-type " + string(other.Type)}, a.Naming.Flags()...)
		return lock.Errorf(lock.ErrUnsafe, "%s has had %s queues, and has a ledger of that time, %q: once no command of it "+
			"runs any more (%s), delete its ledgers, or use --queue-type %s", a.ID, other.Type, queues[i],
			a.ID.CommandLine("berth token-semaphore destroy", flags...), other.Type)
	}
	// What was published to a queue whose node is down comes back as well.
	if err := a.channel.Find(ctx, queues[0]); err != nil && !errors.Is(err, transport.ErrNoQueue) {
		return fmt.Errorf("not known whether %s has had %s queues: %w", a.ID, other.Type, err)
	}
	return nil
}

// other returns the names of the lock's queues of the type that it does not have.
func (a *action) other() names.Names {
	if a.Replicated() {
		return a.Of(names.Classic)
	}
	return a.Of(names.Quorum)
}

// turnWaiters has those who wait for a token of the other type look again, now that there are slots.
func (a *action) turnWaiters(ctx context.Context) {
	if err := a.remove(ctx, a.other(), a.other().Tokens()); err != nil {
		a.dialer.Log.Warn("waiters could not be told of the new lock; they may take minutes to see it",
			"queue", a.other().Tokens(), "error", err)
	}
}
