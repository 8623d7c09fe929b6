package rabbit_test

import (
	"context"
	"errors"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

// inDoubt makes sure that verifying says so, however often.
func inDoubt(t *testing.T, h lock.Held) {
	t.Helper()
	for range 3 {
		if err := h.Verify(within(t)); !errors.Is(err, lock.ErrInDoubt) || errors.Is(err, lock.ErrLost) {
			t.Errorf("verifying: %v", err)
		}
	}
}

func TestVerifyDoesNotConnectAgain(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, id lock.ID) {
		_, h := holder(t, shared, id)
		start(t, h)
		cut(t, id)
		if err := lost(t, h); !errors.Is(err, lock.ErrInDoubt) {
			t.Errorf("cause: %v", err)
		}
		inDoubt(t, h)
		if left := queues(t, shared, id); len(left) > 0 && left[0] == of(id, "1-B") {
			t.Errorf("verifying has claimed %q", left)
		}
		must(t, h.Reclaim(within(t)))
		must(t, h.Verify(within(t)))
		must(t, h.Cause())
	})
}

// damages are what an operator may do to a ledger.
var damages = map[string]func(*amqp.Channel, string) error{
	"deleted": func(ch *amqp.Channel, ledger string) error {
		_, err := ch.QueueDelete(ledger, false, false, false)
		return err
	},
	"purged": func(ch *amqp.Channel, ledger string) error {
		_, err := ch.QueuePurge(ledger, false)
		return err
	},
}

func TestVerifyDoesNotMendTheLedger(t *testing.T) {
	t.Parallel()
	for what, damage := range damages {
		t.Run(what, func(t *testing.T) {
			id := fresh(lock.Mutex)
			_, h := holder(t, shared, id)
			start(t, h)
			onChannel(t, func(ch *amqp.Channel) error { return damage(ch, of(id, "1-T")) })
			inDoubt(t, h)
			if q, found, err := shared.Queue(within(t), "/", of(id, "1-T")); err != nil || found && q.Messages > 0 {
				t.Errorf("verifying has written to the ledger: %+v, %v", q, err)
			}
			must(t, h.Reclaim(within(t)))
			must(t, h.Verify(within(t)))
		})
	}
}

func TestReclaimWithoutTimeKeepsTheOrderOfNodes(t *testing.T) {
	id := fresh(lock.Mutex)
	first, second := newTap(t), newTap(t)
	cfg := at(first.url(), second.url())
	cfg.Heartbeat = long
	h := holdingAs(t, cfg, id)
	cut(t, id)
	_ = lost(t, h)
	over, cancel := context.WithCancel(within(t))
	cancel()
	if err := h.Reclaim(over); !errors.Is(err, context.Canceled) || errors.Is(err, lock.ErrLost) {
		t.Errorf("reclaiming without time: %v", err)
	}
	must(t, h.Reclaim(within(t)))
	if n := second.total(); n > 0 {
		t.Errorf("the other node was sent %d methods", n)
	}
	must(t, h.Release(within(t)))
}
