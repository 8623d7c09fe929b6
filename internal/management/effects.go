package management

import (
	"fmt"
	"strings"
	"time"

	"berth/lock/rabbit/names"
)

const (
	// rewriting is for how long a holder on quorum queues relies on what it has written or used: it does both anew every
	// 10 min, and may need a second attempt.
	rewriting = 12 * time.Minute
	// longestLease is for how long a holder of which nothing is known may live.
	longestLease = 2 * time.Minute
	// longestInHand is for how long berth keeps a message unacknowledged.
	longestInHand = 10 * time.Minute
	// recordBytes is the most that a record has.
	recordBytes = 512
)

// effects are what keys of policies do to a lock's queues, the worst first: the first one that applies counts.
var effects = []struct {
	key     string
	letters string // of the queues
	of      names.QueueType
	when    func(i *inspection, value any) bool
	unsafe  bool
	does    string
}{
	{"message-ttl", "T", names.Quorum, within(rewriting), true,
		"a holder's record goes, which can end its command, and below 2 min none starts after a handover"},
	{"message-ttl", "T", "", always, false,
		"records of holders go, so handovers take the handover delay, or 2 min, and waiters lose their place"},
	{"message-ttl", "WK", "", always, false, "what calls waiters goes, and they look from time to time"},

	{"expires", "A", names.Quorum, within(rewriting), true, "a slot that is held can be deleted, which ends its command"},
	{"expires", "A", "", administered, false, "a slot that was not held for that long is gone until a resize makes it again"},
	// Tried with 2 s on RabbitMQ 3.10: a berth that finds no ledger starts at once.
	{"expires", "T", names.Classic, within(longestLease), true,
		"the record of a holder that is cut off can go before its command is dead, and two commands run"},
	{"expires", "T", names.Quorum, always, false,
		"a slot that was not held for that long is without its record, and the next holder waits for 2 min"},

	{"max-length", "T", names.Quorum, fewer(ledgerFull), true, pushedOutQuorum},
	{"max-length", "T", "", fewer(ledgerLength), false, pushedOut},
	{"max-length", "W", "", fewer(lineLength), false, notCalled},
	{"max-length", "K", "", fewer(tokens), false, notCalled},

	{"overflow", "T", names.Quorum, rejecting, false, "a ledger that is full refuses the records of holders"},

	// Tried with 5 and 20: on RabbitMQ 3.10 and 4.0 the slot is in doubt for 3 s each time; on 4.3 a nack does not count.
	{"delivery-limit", "T", names.Quorum, limitingProofs, true, "each verification has the holder's record delivered again, and " +
		"after so many it is dropped: the slot is in doubt, which can end its command"},
	{"delivery-limit", "T", names.Quorum, limiting, false, "records that come back more often are dropped"},
	{"delivery-limit", "K", names.Quorum, limiting, false, "tokens are dropped, and waiters make them again"},

	{"delayed-retry-type", "T", names.Quorum, delaying, true,
		"the ledger was made without the arguments that prevent it: records come back late, and commands are ended"},

	// Tried with 20 s on RabbitMQ 4.0: the slot is in doubt for 0.1 s, once a minute, and the command runs on.
	{"consumer-timeout", "T", names.Quorum, tooSoon, false,
		"the broker takes its place in the ledger from a holder, whose slot is in doubt each time"},
	{"consumer-timeout", "WK", "", tooSoon, false, "waiters lose what calls them, and look from time to time"},

	{"dead-letter-exchange", "AB", "", always, false,
		"berths that look at a slot leave messages in the queues of that exchange, which fill up"},

	{"ha-mode", "T", names.Classic, mirrored, false,
		"a mirror that takes over may lack the newest records, where --queue-type quorum loses none"},
}

const (
	pushedOut = "records of holders are pushed out where messages come fast, so handovers take the handover delay, and waiters " +
		"lose their place"
	pushedOutQuorum = "records of holders are pushed out, so commands can be ended, or none starts"
	notCalled       = "what calls waiters can be pushed out, and they look from time to time"
)

// effect returns what a key of a policy does to a queue, "" if that is nothing, and whether it keeps commands from running,
// or from running safely.
func (i *inspection) effect(letter, key string, value any) (does string, unsafe bool) {
	if n, ok := value.(float64); ok && key == "max-length-bytes" {
		key, value = "max-length", n/recordBytes
	}
	for _, e := range effects {
		if e.key == key && strings.Contains(e.letters, letter) && (e.of == "" || e.of == i.names.Type) && e.when(i, value) {
			return e.does, e.unsafe
		}
	}
	return "", false
}

func always(*inspection, any) bool { return true }

// within is for a time in milliseconds below the limit.
func within(limit time.Duration) func(*inspection, any) bool {
	return func(_ *inspection, value any) bool {
		ms, ok := value.(float64)
		return ok && ms < float64(limit.Milliseconds())
	}
}

// fewer is for a number below the limit.
func fewer(limit func(*inspection) int) func(*inspection, any) bool {
	return func(i *inspection, value any) bool {
		n, ok := value.(float64)
		return ok && n < float64(limit(i))
	}
}

func ledgerFull(*inspection) int { return names.LedgerFull }

func lineLength(*inspection) int { return int(names.LineLength) }

func ledgerLength(i *inspection) int {
	if i.lock.Quorum {
		return int(names.ReplicatedLength)
	}
	return int(names.LedgerLength)
}

// tokens is how many there may be while some are doubled.
func tokens(i *inspection) int { return 2 * max(i.lock.Slots, 1) }

// administered: nothing but administration makes the slot again.
func administered(i *inspection, _ any) bool { return i.lock.ID.Kind.Administered() }

func rejecting(_ *inspection, value any) bool { return value != "drop-head" }

// limiting: -1 is no limit.
func limiting(_ *inspection, value any) bool {
	n, ok := value.(float64)
	return ok && n >= 0
}

func limitingProofs(i *inspection, value any) bool { return i.before43() && limiting(i, value) }

// delaying: a ledger that is there lacks the argument that keeps the delay short. One that is made has it.
func delaying(i *inspection, value any) bool {
	return value != "disabled" && i.Ledger != nil && i.Ledger.arguments["x-delayed-retry-min"] == nil
}

// tooSoon: from 4.3 on consumers of quorum queues have a longer time of their own, and classic queues none.
func tooSoon(i *inspection, value any) bool {
	return i.before43() && within(longestInHand)(i, value)
}

// mirrored: RabbitMQ 4.0 has no mirrors any more.
func mirrored(i *inspection, _ any) bool { return i.before(4, 0) }

// before43 reports whether the broker is older than RabbitMQ 4.3, as far as is known.
func (i *inspection) before43() bool { return i.before(4, 3) }

func (i *inspection) before(major, minor int) bool {
	var is, point int
	_, _ = fmt.Sscanf(i.lock.Version, "%d.%d", &is, &point)
	return is < major || is == major && point < minor
}
