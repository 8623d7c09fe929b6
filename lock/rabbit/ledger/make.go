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
	Names names.Names
	Side  *transport.Channel // that makes queues
	Via   transport.Via      // that writes to ledgers
	Log   hclog.Logger
}

// Make makes a slot. Its ledger comes first: where that is new, it says that nobody has held the slot, so that the first
// one need not wait for anybody. between is called once there is a ledger, and before it says so: its error ends it.
// Errors: as transport.Channel, and that of between.
func (m Maker) Make(ctx context.Context, slot int, between func() error) error {
	queue := m.Names.Ledger(slot)
	messages, _, err := m.Side.Count(ctx, queue)
	if errors.Is(err, transport.ErrNoQueue) {
		messages, err = 0, m.Side.CreateReplicated(ctx, queue, names.ReplicatedLength, true)
	}
	if err != nil && !errors.Is(err, transport.ErrDiffers) {
		return err
	}
	if err := between(); err != nil {
		return err
	}
	if err == nil && messages == 0 {
		if err := m.writeFirst(ctx, slot); err != nil {
			return err
		}
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
	err := m.Via(ctx, func(c *transport.Channel) error {
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
