// Package names says how the queues of a lock are called. It knows no broker.
package names

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"berth/lock"
)

// Naming says how the queues of a lock are called. All who contend for a lock have to agree on it.
type Naming string

const (
	// NLA puts the slot before the letter: N-1-A, N-1-B. A mutex is N-1-B, so a mutex and slot 1 of a semaphore of
	// the same name exclude each other.
	NLA Naming = "N-L-A"

	// NAL puts the letter before the slot: N-A-1, N-B-1. A mutex is the queue N itself, which is also the
	// administration mutex of a semaphore of the same name: in this naming do not give a mutex and a semaphore the
	// same name.
	NAL Naming = "N-A-L"
)

// Flags returns what a command line needs so that it uses the naming: nothing if it is the default.
func (n Naming) Flags() []string {
	if n == NLA || n == "" {
		return nil
	}
	return []string{"--naming " + string(n)}
}

const (
	// LedgerLength is how many messages a ledger keeps: more than requests can come to it while its reader is stopped,
	// because what does not fit pushes out records of berths that live.
	LedgerLength int32 = 10_000

	// LedgerFull is with how many messages a ledger is not believed: a policy may have it keep fewer than berth says.
	// Nobody leaves as many behind but those who ask for the place of somebody who is stopped.
	LedgerFull = 100

	// LineLength is how many messages the line keeps. All it needs is one baton for a slot.
	LineLength int32 = 100

	// ReplicatedLength is LedgerLength of a quorum queue, which gives a consumer no more than 2000 messages at once: the
	// own record comes after all of them.
	ReplicatedLength int32 = 1000

	// TokensLength is how many messages the queue of tokens keeps: none is lost before a stranger has doubled all.
	TokensLength int32 = 2 * lock.MaxSlots
)

// QueueType says on how many nodes of a cluster the queues of a lock are.
type QueueType string

const (
	// Classic queues are on one node.
	Classic QueueType = "classic"
	// Quorum queues are on several: the lock survives the loss of a minority of these.
	Quorum QueueType = "quorum"
)

// OnSingleNodes says of a lock with classic queues what it does not survive.
const OnSingleNodes = "on classic queues, the lock depends on single nodes of the cluster; with --queue-type quorum, from " +
	"its first use on, it survives the loss of any one of three (docs/clusters.md has how to change the type); " +
	"--queue-type classic silences this"

// QueueTypes are all of them, the default first.
var QueueTypes = []QueueType{Classic, Quorum}

// Names gives the queues of one lock.
type Names struct {
	Naming Naming
	ID     lock.ID
	Type   QueueType // "" before it is known
}

// Of returns the names of the lock's queues if they are of that type. No queue can be of both: the types have names of
// their own.
func (n Names) Of(t QueueType) Names {
	n.Type = t
	return n
}

// Other returns the names of the lock's queues if they are of the type that these are not of.
func (n Names) Other() Names {
	if n.Replicated() {
		return n.Of(Classic)
	}
	return n.Of(Quorum)
}

// longest is the length of a queue's name in bytes: AMQP 0-9-1, 4.2.5.3.
const longest = 255

// Replicated reports whether the queues are on several nodes.
func (n Names) Replicated() bool { return n.Type == Quorum }

// HandsOut reports whether the broker hands tokens to waiters, one for each slot. Nobody is a successor then without one.
func (n Names) HandsOut() bool { return n.Replicated() || n.ID.Kind == lock.TokenSemaphore }

// Origin returns the name of the queue that shows of which type a lock is: A of slot 1, and the ledger of a mutex, which
// nobody administers.
func (n Names) Origin() string {
	if n.ID.Kind == lock.Mutex {
		return n.Ledger(1)
	}
	return n.Exists(1)
}

// Exists returns the name of queue A, which exists as long as the slot does.
func (n Names) Exists(slot int) string { return n.Queue(slot, "A") }

// Holds returns the name of queue B, whose owner holds the slot.
func (n Names) Holds(slot int) string {
	if n.ID.Kind == lock.Mutex && n.Naming == NAL && !n.Replicated() {
		return n.ID.Name
	}
	return n.Queue(slot, "B")
}

// Ledger returns the name of queue T, which says who held the slot last.
func (n Names) Ledger(slot int) string { return n.Queue(slot, "T") }

// Line returns the name of queue W, by which holders wake waiters; "" where tokens do that.
func (n Names) Line() string {
	if n.HandsOut() {
		return ""
	}
	return n.ID.Name + "-W"
}

// Tokens returns the name of queue K, which has the tokens: N-Q where it is replicated. A semaphore whose waiters are
// handed tokens is a token semaphore, so these two are one lock there.
func (n Names) Tokens() string {
	switch {
	case !n.Replicated():
		return n.ID.Name + "-K"
	case n.ID.Kind == lock.Mutex:
		return n.ID.Name + "-Q-M"
	case n.ID.Kind == lock.PersistentMutex:
		return n.ID.Name + "-Q-P"
	}
	return n.ID.Name + "-Q"
}

// Waiters returns the name of the queue that waiters consume from.
func (n Names) Waiters() string {
	if n.HandsOut() {
		return n.Tokens()
	}
	return n.Line()
}

// Administration returns the name of the administration mutex.
func (n Names) Administration() string { return n.ID.Name }

// Absent is the error for a lock without a slot.
func (n Names) Absent() error {
	flags := n.Naming.Flags()
	if n.Replicated() {
		flags = append(flags, "--queue-type "+string(Quorum))
	}
	return n.ID.Absent(flags...)
}

// ErrOtherType says that the queues of a lock are of the other type than those that were looked for. It comes with
// lock.ErrUnsafe.
var ErrOtherType = errors.New("its queues are of the other type")

// Sign is a queue of slot 1 by which a lock is seen.
type Sign struct {
	Of    Names // the lock that it shows
	Queue string
}

// Rivals returns the locks that this one cannot be beside: the same lock with queues of the other type, and others that
// have these for their own. Who makes a lock looks for them.
func (n Names) Rivals() (all []Names) {
	of := func(kind lock.Kind, t QueueType) {
		all = append(all, Names{Naming: n.Naming, ID: lock.ID{Kind: kind, Name: n.ID.Name}, Type: t})
	}
	switch kind := n.ID.Kind; {
	case n.Replicated():
		of(lock.Semaphore, Classic) // a mutex and a persistent mutex have the same
		if kind.Sized() {
			of(lock.TokenSemaphore, Classic)
		}
	case kind == lock.TokenSemaphore:
		of(kind, Quorum)
	default:
		if kind != lock.Mutex {
			of(kind, Quorum)
		}
		of(lock.Mutex, Quorum) // which takes a record of any kind for that of a mutex
	}
	return all
}

// RivalSigns returns what shows that the lock has a rival.
func (n Names) RivalSigns() (all []Sign) {
	for _, rival := range n.Rivals() {
		all = append(all, Sign{rival, rival.Exists(1)}, Sign{rival, rival.Ledger(1)})
	}
	return all
}

// OfOtherType is the error for a lock that has queues of the other type, as their Origin shows: ErrOtherType.
func (n Names) OfOtherType() error {
	other := n.Other()
	return n.Beside(Sign{other, other.Origin()})
}

// Beside is the error for a lock beside a rival: ErrOtherType, if that is the same lock with queues of the other type.
func (n Names) Beside(rival Sign) error {
	of := rival.Of
	if of.ID.Kind != n.ID.Kind && (of.HandsOut() || n.ID.Kind == lock.TokenSemaphore) {
		return lock.Errorf(lock.ErrUnsafe, "%s cannot have %s queues beside %s, of which there is queue %q; give one of them "+
			"another name, or end that one and delete its queues", n.ID, n.Type, of.ID, rival.Queue)
	}
	return otherType{lock.Errorf(lock.ErrUnsafe, "%s has %s queues, as queue %q shows; use --queue-type %s; docs/clusters.md "+
		"has how to change the type", n.ID, of.Type, rival.Queue, of.Type)}
}

// Vanished is the error for a mutex whose queues were found, and have gone before it was held: ErrOtherType.
func (n Names) Vanished() error {
	return otherType{lock.Errorf(lock.ErrUnknown, "%s had %s queues a moment ago, and has none now; try again", n.ID, n.Type)}
}

// otherType is ErrOtherType, and says which.
type otherType struct{ error }

func (otherType) Is(target error) bool { return target == ErrOtherType }

func (e otherType) Unwrap() error { return e.error }

// Foreign is the error for a queue that is exclusive to nobody in the place of one that has to be. The broker answers
// claims of it as if somebody had claimed it (405), but a client that looks it up is told that it is there.
func (n Names) Foreign(queue string) error {
	remedy := "delete it, or give the lock another name"
	if queue == n.ID.Name && n.ID.Kind == lock.Mutex && !n.Replicated() {
		remedy += ", or use --naming " + string(NLA) + " wherever it is used"
	}
	return lock.Errorf(lock.ErrUnsafe, "queue %q is not berth's and takes the place of one that is; %s", queue, remedy)
}

// Mixed is the error for a lock of the plain protocol whose slot has a ledger: a berth of the full protocol starts as
// soon as that says so, and does not wait for one that writes nothing into it.
func (n Names) Mixed(slot int) error {
	return lock.Errorf(lock.ErrUnsafe, "%s has a ledger, queue %q: it is or was used with --protocol full, beside which "+
		"--protocol plain is not safe; use --protocol full here too, or end every berth that uses it, and delete the ledgers",
		n.ID, n.Ledger(slot))
}

// Queue returns the name of the queue of a slot that has this letter. No lock has slot 0.
func (n Names) Queue(slot int, letter string) string { return n.queue(strconv.Itoa(slot), letter) }

// Mark returns the name of a queue that nobody else has. Any user of the lock's queues may make it: it looks like B of
// a slot, but for a number that begins with 0.
func (n Names) Mark() string {
	const digits = 20 // of a random number
	random := fmt.Sprintf("%0*d", digits, rand.Uint64())
	room := longest - len(n.queue("0", "B"))
	return n.queue("0"+random[digits-min(room, digits):], "B") // the first digits are less random
}

func (n Names) queue(slot, letter string) string {
	of := n.ID.Name
	if n.HandsOut() {
		of = n.Tokens() // other locks of this name have slots of their own
	}
	if n.Naming == NAL {
		return of + "-" + letter + "-" + slot
	}
	return of + "-" + slot + "-" + letter
}
