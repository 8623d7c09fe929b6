package inspection

import (
	"context"
	"errors"

	"al.essio.dev/pkg/shellescape"

	"berth/lock"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/transport"
)

// tryReturn looks whether a policy has messages come late that are put back: then no proof of a slot comes in time. The
// queues of a lock are made so that this does nothing to them, unless an older berth or RabbitMQ has made them.
func (i *inspection) tryReturn(ctx context.Context) error {
	all, err := i.take(ctx)
	if err != nil || len(all) == 0 {
		return err // all was dropped, which tryLedger has told
	}
	if err := all[len(all)-1].Nack(true, true); err != nil {
		return i.conn.BrokenError("cannot inspect " + i.names.ID.String())
	}
	back, err := i.take(ctx)
	if err != nil || len(back) > 0 {
		return err
	}
	ledger := i.names.Ledger(1)
	if err := i.channel.Find(ctx, ledger); errors.Is(err, transport.ErrNoQueue) {
		return nil
	} else if err != nil {
		return err
	}
	if err := i.channel.CreateReplicated(ctx, ledger, names.ReplicatedLength, true); errors.Is(err, transport.ErrDiffers) {
		i.problem(lock.ErrUnsafe, "messages of a queue like %q come late once they are put back, so a policy delays them "+
			"(delayed-retry-type), and queue %q was made without the arguments that prevent it: commands will be ended within "+
			"seconds; exempt this lock's queues (rabbitmqctl list_policies -p %s, list_operator_policies), or destroy the lock, "+
			"delete its ledgers and create it anew", i.trialT, ledger, shellescape.Quote(i.vhost))
	}
	return nil
}

// take takes all messages of the queue that is for trying.
func (i *inspection) take(ctx context.Context) (all []transport.Delivery, err error) {
	for {
		d, found, err := i.channel.Get(ctx, i.trialT)
		if err != nil || !found {
			return all, err
		}
		all = append(all, d)
	}
}

// removeTrial removes the queue that is exclusive to nobody.
func (i *inspection) removeTrial(ctx context.Context) {
	if i.names.Replicated() && !i.conn.Broken() {
		_ = i.conn.Channel().Remove(ctx, i.trialT)
	}
}
