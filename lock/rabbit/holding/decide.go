package holding

import (
	"errors"
	"time"

	"berth/internal/boottime"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/transport"
)

// situation is what one that waits goes by, besides what it knows of the ledger.
type situation struct {
	clock       boottime.Clock
	gaveUp      bool // its caller has
	lost        bool // there is a cause
	out         bool // it waits away from the reader's place
	ours        bool // B is
	asked       bool // the holder has asked for the slot
	term        uint64
	mayStart    bool // nobody has to end any more
	missing     bool // the ledger did not exist before
	lease       time.Duration
	asSuccessor bool // it goes on to wait when the holder has asked for the slot
	there       bool // the slot was seen since nobody has to be waited for
	blocked     bool // the connection is
	priority    int
}

// step is what one that waits does next.
type step string

const (
	giveUp      step = "give up"
	sayWhy      step = "say why it is lost"
	losePlace   step = "lose the place"
	loseToGuard step = "lose the slot, which the own guard has released"
	handBack    step = "give B back to its holder"
	recordAgain step = "record itself again" // somebody was here meanwhile, and has gone
	proveAgain  step = "prove the place"     // the release may have lain in the socket
	proveLast   step = "prove the place, and have the command started"
	lookAtSlot  step = "look whether the slot is there"
	start       step = "have the command started"
	breakOff    step = "break off"
	waitOutside step = "wait away from the reader's place"
	stepBack    step = "step back"
	listen      step = "listen"
)

// next decides what to do, where the reader knows this much. It has all that lets a command start whose last holder
// was heard of.
func (s situation) next(known ledger.View) step {
	switch {
	case s.gaveUp:
		return giveUp
	case s.lost:
		return sayWhy
	case !s.out && transport.IsClosed(known.Ended):
		return losePlace
	case known.Disowned() && s.term != 0:
		return loseToGuard
	case s.ours && !s.out && (s.asked || known.HolderAlive):
		return handBack
	case !s.out && s.free(known):
		return s.begin(known)
	case s.blocked:
		return breakOff
	case s.ours:
		return waitOutside
	case s.asSuccessor && known.Asked > s.priority:
		return stepBack
	}
	return listen
}

// begin is next where there is no holder to wait for.
func (s situation) begin(known ledger.View) step {
	switch {
	case s.term != 0 && !known.Current():
		return recordAgain
	case s.clock.Until(known.Proven.Add(s.lease/2)) <= 0:
		return proveAgain
	case s.asSuccessor && !s.there:
		return lookAtSlot
	}
	return start
}

// free reports whether nobody has to end before the command may start.
func (s situation) free(known ledger.View) bool {
	return s.mayStart || s.term != 0 && (known.AllReleased() || s.missing && known.Blank())
}

// claiming is what comes of a claim of B after the start.
type claiming string

const (
	claimed        claiming = "it is ours"
	connectionGone claiming = "doubt the slot, whose connection is gone"
	successorRuns  claiming = "lose the slot to somebody who has taken it for one that was never used"
	nothingLeft    claiming = "doubt the slot, of which there is neither the place nor B"
	tellOwner      claiming = "tell whoever has B that it is over, and claim again"
	cannotClaim    claiming = "claim again, though it is nobody's"
	claimAgain     claiming = "claim again"
)

// patientClaims is how many claims may fail before the owner of B is told that it is over: the last holder deletes it
// within milliseconds.
const patientClaims = 5

// afterClaim decides what follows a claim of B, if the connection is broken, and the reader's place has ended. deleted
// reports whether that is because there is no ledger.
func afterClaim(err error, broken, ended bool, deleted func() bool, tries int) claiming {
	taken := errors.Is(err, transport.ErrTaken)
	switch {
	case err == nil:
		return claimed
	case broken:
		return connectionGone
	case ended && taken && deleted(): // who takes a slot without a ledger for one that was never used starts at once
		return successorRuns
	case ended:
		return nothingLeft
	case !taken:
		return cannotClaim
	case tries > patientClaims:
		return tellOwner
	}
	return claimAgain
}
