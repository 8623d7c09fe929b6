package line

import (
	"context"

	"berth/lock"
	"berth/lock/rabbit/transport"
)

// baton is what a message of W says. Its zero value is for no slot in particular.
type baton struct {
	slot   int
	passed int // how many waiters have passed it on because the slot is none of theirs
}

// The headers of a baton.
const (
	slotHeader   = "slot"
	passedHeader = "passed"
)

// Wake publishes a baton for a free slot, so that a waiter looks at it. Errors and
// presence: as transport.Publisher.Deliver.
func Wake(ctx context.Context, p *transport.Publisher, queue string, slot int) (transport.Presence, error) {
	return p.Deliver(ctx, queue, baton{slot: slot}.message())
}

// message is transient: after a restart of the broker holders make new batons.
func (b baton) message() transport.Message {
	headers := map[string]any{slotHeader: int32(b.slot)}
	if b.passed > 0 {
		headers[passedHeader] = int32(b.passed)
	}
	return transport.Message{Kind: "baton", Headers: headers}
}

// readBaton returns what a message of W says; anybody may publish.
func readBaton(d transport.Delivery) (b baton) {
	if slot, _ := d.Headers[slotHeader].(int32); slot >= 1 && slot <= lock.MaxSlots {
		b.slot = int(slot)
	}
	if passed, _ := d.Headers[passedHeader].(int32); passed > 0 {
		b.passed = int(passed)
	}
	return b
}

// slotOf returns which slot a baton is for, 0 if it does not say.
func slotOf(d transport.Delivery) int { return readBaton(d).slot }
