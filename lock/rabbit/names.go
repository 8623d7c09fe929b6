package rabbit

import (
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

// Naming says how the queues of a lock are called. All who contend for a lock
// have to agree on it.
type Naming string

const (
	// NamingNLA puts the slot before the letter: N-1-A, N-1-B. A mutex is
	// N-1-B, so a mutex and slot 1 of a semaphore of the same name exclude
	// each other.
	NamingNLA Naming = "N-L-A"

	// NamingNAL puts the letter before the slot: N-A-1, N-B-1. A mutex is the
	// queue N itself, which is also the administration mutex of a semaphore
	// of the same name: in this naming do not give a mutex and a semaphore
	// the same name.
	NamingNAL Naming = "N-A-L"
)

// Flags returns what a command line needs so that it uses the naming: nothing if
// it is the default.
func (n Naming) Flags() []string {
	if n == NamingNLA || n == "" {
		return nil
	}
	return []string{"--naming " + string(n)}
}

// names gives the queues of one lock.
type names struct {
	naming Naming
	id     lock.ID
}

// exists returns the name of queue A, which exists as long as the slot does.
func (n names) exists(slot int) string { return n.queue(slot, "A") }

// holds returns the name of queue B, whose owner holds the slot.
func (n names) holds(slot int) string {
	if n.id.Kind == lock.Mutex && n.naming == NamingNAL {
		return n.id.Name
	}
	return n.queue(slot, "B")
}

// ledger returns the name of queue T, which says who held the slot last.
func (n names) ledger(slot int) string { return n.queue(slot, "T") }

// batons returns the name of queue W, by which holders wake waiters.
func (n names) batons() string { return n.id.Name + "-W" }

// administration returns the name of the administration mutex.
func (n names) administration() string { return n.id.Name }

// absent is the error for a lock without a slot.
func (n names) absent() error { return n.id.Absent(n.naming.Flags()...) }

// foreign is the error for a queue that is exclusive to nobody in the place of one
// that has to be. The broker answers claims of it as if somebody had claimed it
// (405), but whoever looks it up is told that it is there.
func (n names) foreign(queue string) error {
	remedy := "delete it, or give the lock another name"
	if queue == n.id.Name && n.id.Kind == lock.Mutex {
		remedy += ", or use --naming " + string(NamingNLA) + " wherever it is used"
	}
	return lock.Errorf(lock.ErrUnsafe, "queue %q is not berth's and takes the place of one that is; %s", queue, remedy)
}

func (n names) queue(slot int, letter string) string {
	if n.naming == NamingNAL {
		return n.id.Name + "-" + letter + "-" + strconv.Itoa(slot)
	}
	return n.id.Name + "-" + strconv.Itoa(slot) + "-" + letter
}

// ledgerLength bounds a ledger. A term leaves two records, and whoever holds the
// slot removes the older ones; the rest is room for wills that come late.
const ledgerLength int32 = 100

// bounded returns the arguments of T and W. What does not fit pushes out the oldest:
// a ledger without the last holder's record says "unknown", which is safe.
func bounded() amqp.Table { return classic(ledgerLength) }

// classic returns the arguments of a classic queue of that length, whatever the
// default of the virtual host. From 4.0 on a quorum queue discards a message that
// has come back 20 times (delivery limit): a baton comes back with every holder,
// and a record with everybody who reads it.
//
// The overflow is given although it is the default because a policy could set
// reject-publish, with which every probe would be nacked; an argument overrides
// the policy.
func classic(length int32) amqp.Table {
	return amqp.Table{"x-queue-type": "classic", "x-max-length": length, "x-overflow": "drop-head"}
}

// empty returns the arguments of A and B. A queue with them keeps nothing and
// refuses nothing: a probe is confirmed and gone.
func empty() amqp.Table { return classic(0) }
