// Package token is queue K of a token semaphore. It has one message for each slot, its token. The berth that keeps it
// unacknowledged has its turn in the slot: the broker pushes it to the waiter of the highest priority, and to the next
// one as soon as its keeper is gone.
//
// A token says whose turn it is, and never that a command may run: the reader's place, the ledger and B of the slot
// decide that. So one that is lost keeps a slot empty until it is made again (Pool), and one that is doubled has a
// berth take a reader's place for nothing. The package knows queues and messages, and nothing of who holds a slot.
package token

import (
	"berth/lock"
	"berth/lock/rabbit/transport"
)

// The header that names the slot, an integer.
const slotHeader = "slot"

// Priorities of consumers of K, beside those of waiters: twice lock.MaxPriority + 1 at most.
const (
	keeperPriority = 1000 // a holder that wants its token back
	poolPriority   = 2000 // administration that counts them
)

// Token is one in hand.
type Token struct {
	Slot int // that it is for; 0: it is not berth's

	delivery transport.Delivery
}

// message is persistent: a broker that was restarted has all tokens.
func message(slot int) transport.Message {
	return transport.Message{
		Type: "token", DeliveryMode: transport.Persistent, Headers: map[string]any{slotHeader: int32(slot)},
	}
}

// read returns the token that was delivered; anybody may publish.
func read(d transport.Delivery) Token {
	t := Token{delivery: d}
	if slot, _ := d.Headers[slotHeader].(int32); slot >= 1 && slot <= lock.MaxSlots {
		t.Slot = int(slot)
	}
	return t
}

// putBack lets somebody else have it. It does not wait: an error says only that the channel has ended, which does it
// too.
func (t Token) putBack() { _ = t.delivery.Nack(false, true) }

// remove leaves the queue without it. It does not wait.
func (t Token) remove() { _ = t.delivery.Ack(false) }
