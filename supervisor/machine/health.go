package machine

import (
	"fmt"

	"berth/lock"
	"berth/supervisor"
)

// ErrUnfit: this berth is not to take a slot.
var ErrUnfit = lock.Errorf(lock.ErrUnknown, "no health check has succeeded here (--health-while-waiting)")

// unfit goes to the end of the line, or ends where nothing is waited for.
func (f Facts) unfit() Ending {
	if f.Policy.Try {
		return Ending{Reason: Failing, Exit: exit{Err: fmt.Errorf("%s not obtained: %w", f.Policy.ID, ErrUnfit)}, Then: End}
	}
	return Ending{Reason: Failing, Exit: exit{Err: ErrUnfit}, Then: Queue}
}

// afterFailures is for so many failed checks in a row. Of a command that runs, its death decides what then; while none
// does, only an attempt that cannot be repeated comes to its end.
func afterFailures(state supervisor.State, f Facts) Ending {
	switch {
	case state.Working():
		return Ending{Reason: Failing}
	case f.Policy.Try:
		return f.unfit()
	}
	return f.Ending
}

// afterCut decides what follows the death of a command that was ended because it was unhealthy, or had run for too
// long. Either is a failure, however it has ended then: --restart starts it again. One that has never been healthy in
// its run would not be here the next time either, so that others get the slot.
func afterCut(f Facts) Ending {
	reason := f.Ending.Reason
	cut := Ending{Reason: reason, Exit: exit{Status: supervisor.ExitCut}, Then: End}
	switch {
	case f.Command.AtTerminal: // the user has ended it meanwhile
		return Ending{Reason: Finished, Exit: exit{Status: supervisor.EndedStatus(f.Command.Status)}, Then: End}
	case f.Policy.Restarts() && !f.HungUp() && (reason == Overran || f.Healthy):
		return Ending{Then: StartAgain}
	case reason == Overran:
		cut.Exit.Err = fmt.Errorf("%s: %w (--max-run %s)", f.Policy.ID, supervisor.ErrOverran, f.Policy.MaxRun)
	case f.lossEnds():
		cut.Exit.Err = fmt.Errorf("%s: %w", f.Policy.ID, supervisor.ErrUnhealthy)
	default:
		return Ending{Reason: reason, Then: Queue}
	}
	return cut
}

// mayStartAgain reports whether a command that is being ended might be started again in the slot.
func (f Facts) mayStartAgain() bool {
	switch f.Ending.Reason {
	case "": // what it has left is being ended
		return true
	case Failing, Overran:
		return f.Policy.Restarts()
	}
	return false
}
