package ledger

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/hashicorp/go-hclog"

	"berth/lock/rabbit/names"
	"berth/lock/rabbit/transport"
)

// Maker makes slots on several nodes of a cluster.
type Maker struct {
	Names  names.Names
	Side   *transport.Channel // that makes queues
	Lender transport.Lender   // that writes to ledgers
	Log    hclog.Logger
}

// Make makes a slot. Its ledger comes first: where that is new, it says that nobody has held the slot, so that the first
// one need not wait for anybody. between is called once there is a ledger, and before it says so: it reports whether that
// is known. Its error ends it, and a ledger that was made is removed. Errors: as transport.Channel, and that of between.
func (m Maker) Make(ctx context.Context, slot int, between func() (known bool, err error)) error {
	queue := m.Names.Ledger(slot)
	err := m.Side.Find(ctx, queue)
	made := errors.Is(err, transport.ErrNoQueue)
	if made {
		err = m.Side.CreateReplicated(ctx, queue, names.ReplicatedLength, true)
		made = err == nil // otherwise somebody else, on a broker of another version, was faster
	}
	if err != nil && !errors.Is(err, transport.ErrDiffers) {
		return err
	}
	known, err := between()
	if err != nil && made {
		if left := m.Side.RemoveReplicated(ctx, queue); left != nil {
			m.Log.Warn("a ledger was left behind that no lock has; delete it", "queue", queue, "error", left)
		}
		return err
	}
	if err == nil && known && made {
		err = m.writeFirst(ctx, slot)
	}
	if err != nil {
		return err
	}
	a := m.Names.Exists(slot)
	if err := m.Side.Find(ctx, a); !errors.Is(err, transport.ErrNoQueue) {
		return err // it is a leftover
	}
	return m.Side.CreateReplicated(ctx, a, 0, false)
}

// writeFirst writes what a ledger begins with. Without that, its first reader waits for as long as anybody may live.
func (m Maker) writeFirst(ctx context.Context, slot int) error {
	var letters []transport.Letter
	for _, message := range First(rand.Text()) {
		letters = append(letters, transport.Letter{Queue: m.Names.Ledger(slot), Message: message})
	}
	err := m.Lender(ctx, func(c *transport.Channel) error {
		_, err := c.Send(ctx, letters)
		return err
	})
	if errors.Is(err, transport.ErrUnanswered) {
		m.Log.Warn("the slot's ledger could not be written: its first holder waits for two minutes", "slot", slot,
			"error", err)
		return nil
	}
	return err
}
