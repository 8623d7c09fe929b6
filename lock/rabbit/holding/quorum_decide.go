package holding

import (
	"time"

	"berth/internal/boottime"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/transport"
)

// quorumSituation is what one that waits for a slot on quorum queues goes by, besides what it knows of the ledger.
type quorumSituation struct {
	clock   boottime.Clock
	gaveUp  bool          // its caller has
	blocked bool          // the connection is
	empty   bool          // the ledger said nothing when it was entered
	left    time.Duration // until nobody can live of whom is known
	lease   time.Duration
}

// next decides what to do, where the reader knows this much. It has all that lets a command start.
func (s quorumSituation) next(known ledger.View) step {
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
		return recordAgain
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
func (s quorumSituation) free(known ledger.View) bool { return known.AllReleased() && !s.empty }

// undisturbed reports whether nothing has kept the place from a holding since its record was read: that is read by the end
// of a proof that begins later.
func undisturbed(known ledger.View) bool { return !known.HolderAlive && known.Current() }
