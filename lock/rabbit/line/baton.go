package line

import (
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

// Call returns a message that has one waiter look at a free slot, which has no successor. It is no baton: where
// nobody waits it goes by itself.
func Call(slot int) transport.Message {
	m := baton{slot: slot}.message()
	m.Type, m.Expiration = "call", callTime
	return m
}

// isCall reports whether a message of W is from Call.
func isCall(d transport.Delivery) bool { return d.Expiration != "" }

// callTime is for how many milliseconds a call is worth something: to who has found every slot held, and is about to
// stand in line.
const callTime = "10000"

// message is transient: after a restart of the broker the successors make new batons.
func (b baton) message() transport.Message {
	headers := map[string]any{slotHeader: int32(b.slot)}
	if b.passed > 0 {
		headers[passedHeader] = int32(b.passed)
	}
	return transport.Message{Type: "baton", Headers: headers}
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
