package supervisor

import (
	"syscall"
	"time"

	"berth/internal/boottime"
	"berth/lock"
)

// Observer is told what a supervisor does. Its methods are called by the one
// goroutine that decides, so they return at once.
type Observer interface {
	// Observe is told of every change, the first state and Ended included.
	Observe(now Situation)

	// Beat is called every Config.Beat for as long as the supervisor gets around
	// to what it has to do.
	Beat()
}

// Situation is where a supervisor is and what it has. Two of them can be compared.
type Situation struct {
	State State
	Slot  int    // the slot that is held, 0: none
	Term  uint64 // its term, 0: none
	Pid   int    // the first process of the command that runs, 0: none, or it is not known

	// Frozen: the command is stopped until the slot is verified again.
	Frozen bool

	// Health is what checks say of the command, or of this host while it waits.
	Health HealthState

	// Waiting says why there is no slot yet, in one line, "" if that is not known
	// or there is one.
	Waiting string

	// Ending: berth itself ends, not only its command.
	Ending bool

	// Since is when the slot was won, or the wait for one began.
	Since time.Time

	// KillAt is when the sequence under way comes to KILL, zero if there is none.
	KillAt time.Time
}

// Report adds to self, which is what does not change, what others are told of a situation.
func (s Situation) Report(self lock.Report) lock.Report {
	self.State, self.Slot, self.Term, self.Trouble = string(s.State), s.Slot, s.Term, s.Waiting
	self.Since, self.Ending = s.Since, s.State.Ending()
	self.Health = string(s.Health)
	if s.Health == Unhealthy && s.Slot == 0 {
		self.Trouble = "its health checks fail: it takes no slot"
	}
	if s.State == InDoubt {
		self.Trouble = "the slot is in doubt: it is not verified"
	}
	return self
}

// Tally is told what can be counted. Its methods are called as those of an Observer.
type Tally interface {
	// Won is for a slot that was won, after a wait of so long.
	Won(waited time.Duration)

	// Started is for a command that runs, so long after the slot was won, or after it was to be started
	// again in the same slot.
	Started(took time.Duration, again bool)

	// Proved is for a proof that the slot is held. The command's tree is dead by the deadline unless the next
	// one comes before; 0: there is no deadline.
	Proved(since, deadline boottime.Instant)

	// Verified is for the end of a verification; err is nil if it has proved the slot.
	Verified(took time.Duration, err error)

	// Lost is for a slot that was lost while a command ran in it, or between two runs, and why.
	Lost(cause LossCause, why error)

	// Checked is for a health check that has ended, and was not broken off.
	Checked(CheckOutcome)

	// Cut is for a command that is ended because it is unhealthy, or has run for too long.
	Cut(CutCause)

	// Step is for a signal of the sequence that ends the command.
	Step(sig syscall.Signal)
}

// LossCause is how a loss became known.
type LossCause string

// The causes of a loss.
const (
	// NotVerified: no verification succeeded in time.
	NotVerified LossCause = "not_verified"
	// DeadlinePassed: not even the supervisor acted in time, and the guard has killed the command.
	DeadlinePassed LossCause = "deadline_passed"
	// Proven: the backend says that the slot is somebody else's, or gone.
	Proven LossCause = "proven"
)

// LossCauses returns all of them.
func LossCauses() []LossCause { return []LossCause{NotVerified, DeadlinePassed, Proven} }
