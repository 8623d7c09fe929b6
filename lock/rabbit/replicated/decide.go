package replicated

import (
	"time"

	"berth/internal/boottime"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/transport"
)

// situation is what one that waits goes by, besides what it knows of the ledger.
type situation struct {
	clock   boottime.Clock
	gaveUp  bool          // its caller has
	blocked bool          // the connection is
	empty   bool          // the ledger said nothing when it was entered
	left    time.Duration // until nobody can live of whom is known
	lease   time.Duration
}

// step is what one that waits does next.
type step string

const (
	giveUp       step = "give up"
	losePlace    step = "lose the place"
	loseToGuard  step = "lose the slot, which the own guard has released"
	stepBack     step = "step back for a holder that lives"
	breakOff     step = "break off"
	recordItself step = "record itself again" // somebody was here meanwhile, and has gone
	start        step = "have the command started"
	proveAgain   step = "prove the place"
	proveLast    step = "prove the place, and have the command started"
	listen       step = "listen"
)

// next decides what to do, where the reader knows this much. It has all that lets a command start.
func (s situation) next(known ledger.View) step {
	free := s.free(known)
	switch {
	case s.gaveUp:
		return giveUp
	case transport.IsClosed(known.Ended):
		return losePlace
	case known.Disowned():
		return loseToGuard
	case known.HolderAlive:
		return stepBack
	case s.blocked:
		return breakOff
	case (free || s.left <= 0) && !known.Current():
		return recordItself
	case free && s.clock.Until(known.Proven.Add(s.lease/2)) > 0:
		return start
	case free:
		return proveAgain
	case s.left <= 0:
		return proveLast
	}
	return listen
}

// free reports whether nobody else's tree can be alive, as far as the ledger says.
func (s situation) free(known ledger.View) bool { return known.AllReleased() && !s.empty }

// undisturbed reports whether nothing has kept the place from a holding since its record was read: that is read by the end
// of a proof that begins later.
func undisturbed(known ledger.View) bool { return !known.HolderAlive && known.Current() }
