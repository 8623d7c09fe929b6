package replicated

import (
	"context"
	"time"

	"berth/lock/rabbit/ledger"
)

// lateProof is after how long a proof is late enough to ask why.
const lateProof = time.Second

// prove proves the place, and tells why that takes long, if it is to be seen.
func (h *Held) prove(ctx context.Context, door *ledger.Door) error {
	told := make(chan struct{})
	late := time.AfterFunc(lateProof, func() {
		defer close(told)
		h.tellDelay(ctx)
	})
	err := door.Prove(ctx)
	if !late.Stop() {
		<-told
	}
	return err
}

// tellDelay tells once that a policy delays what is put back: the ledger's leader answers, and counts nobody beside us
// and no message, though ours was put back.
func (h *Held) tellDelay(ctx context.Context) {
	if h.delayed || !h.Conn().Since(4, 3) {
		return
	}
	ready, consumers, err := h.Side().Count(ctx, h.t)
	if h.delayed = err == nil && ready == 0 && consumers == 1; h.delayed {
		h.Log.Warn("the broker delays records that are put back, so commands are ended: exempt the queue from policies that "+
			"set delayed-retry-type (rabbitmqctl list_policies, list_operator_policies), or make the lock anew", "queue", h.t)
	}
}
