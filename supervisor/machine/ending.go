package machine

import (
	"errors"
	"fmt"
	"syscall"

	"berth/lock"
	"berth/supervisor"
)

// Ending is why something comes to its end, and what then: the command, the slot,
// berth itself. The zero value: nothing does.
type Ending struct {
	Reason Reason
	Signal syscall.Signal // Told: the first one
	Exit   exit           // what the user is told, and what berth exits with if it ends
	Then   Then
}

type exit = supervisor.Exit

// Reason is why something ends.
type Reason string

// The reasons.
const (
	Told        Reason = "told to end"    // by a signal
	Finished    Reason = "finished"       // the command ended by itself
	Lost        Reason = "slot lost"      // or not proved to be ours in time
	NotObtained Reason = "not obtained"   // there is no slot, and waiting would not help
	Asked       Reason = "stepped down"   // somebody who may asked for it
	Timeout     Reason = "timeout"        // --timeout has passed
	Refused     Reason = "refused"        // by on_acquire
	Failing     Reason = "unhealthy"      // so many checks in a row have failed
	Overran     Reason = "ran too long"   // --max-run has passed
	NotBegun    Reason = "cannot execute" // the command
	Unguarded   Reason = "no guard"       // none works here
	Unanswered  Reason = "no answer"      // a call to the backend does not return
)

// Then is what follows an ending.
type Then string

// What can follow.
const (
	Undecided  Then = ""            // that depends on how the command dies, or nothing ends
	End        Then = "end"         // berth ends, once the slot is given back
	Queue      Then = "queue"       // the slot is given back, and berth waits for the next one
	StartAgain Then = "start again" // the command is, in the same slot
	NextGuard  Then = "next guard"  // another one is told to start the command, at once
	Proceed    Then = "proceed"     // on_acquire has no objection: the command is started
)

// maxGuardDeaths is how many guards in a row may die before they could start the command,
// and are replaced.
const maxGuardDeaths = 3

// why returns the ending as it is after an event. The first reason to end berth
// counts, and is only completed by how the command died. A loss by itself does not
// end berth, so that any other reason takes its place.
func why(state supervisor.State, on Event, f Facts) Ending {
	switch {
	case on == Acquired && state == supervisor.Attempting && f.Unfit:
		return f.unfit()
	case on == Acquired && state == supervisor.Attempting:
		return Ending{}
	case on == TreeDied:
		return afterDeath(f)
	case on == Stuck && state == supervisor.Releasing:
		cause := fmt.Errorf("%s: a call to the broker or file system did not return: %w", f.Policy.ID, lock.ErrUnreachable)
		return Ending{Reason: Unanswered, Exit: exit{Err: cause}, Then: End}
	case on == NotConnected && state == supervisor.Quitting:
		return notReached(f)
	case f.Ending.Then == End:
		return f.Ending
	}
	switch on {
	case ToldToEnd:
		return Ending{Reason: Told, Signal: f.Signal, Exit: exit{Status: supervisor.ExitSignal + int(f.Signal)}, Then: End}
	case Agreed:
		return afterRequest(state, f)
	case Unhealthy:
		return afterFailures(state, f)
	case RunOver:
		return Ending{Reason: Overran}
	case TimedOut:
		return Ending{Reason: Timeout, Exit: exit{Err: timedOut(state, f)}, Then: End}
	case NotConnected, NotAcquired, NotWoken:
		if f.Hopeless(f.Err) {
			cause := f.Err
			if errors.Is(cause, lock.ErrFull) {
				cause = fmt.Errorf("%w; without --try berth waits for it", cause)
			}
			return Ending{Reason: NotObtained, Exit: exit{Err: cause}, Then: End}
		}
	case GuardUnusable, NoGuard:
		again := on == NoGuard && f.Use == HasRun || on == GuardUnusable && f.Guarded // what could be before will be again
		if lost := f.Command.Phase != Absent && f.Ending.Reason == Lost; !again && !lost {
			return Ending{Reason: Unguarded, Exit: exit{Status: supervisor.ExitCannotExecute, Err: f.Err}, Then: End}
		}
	case NotReady, Unverified, LossReported, LossDue, Overdue:
		return afterLoss(state, on, f)
	}
	return f.Ending
}

// Hopeless reports whether waiting would not help: with --try nothing is waited
// for, and what was refused from the beginning is a mistake to be mended. Once
// the backend has let us work, a refusal is taken for a passing state of it.
func (f Facts) Hopeless(err error) bool {
	if f.Policy.Try || errors.Is(err, lock.ErrUnsafe) {
		return true
	}
	return errors.Is(err, lock.ErrDenied) && !f.Admitted
}

// errUnfinished: the time was over before anything was found out.
var errUnfinished = lock.Errorf(lock.ErrUnknown, "no attempt was finished in that time; give it longer")

// errUnready: the time was over while the last holder's command may have been alive.
var errUnready = lock.Errorf(lock.ErrUnknown, "a slot was won, and whether its last holder's command is dead was not "+
	"known in that time; give it longer")

// timedOut says that the time is over, and what was in the way.
func timedOut(state supervisor.State, f Facts) error {
	err := f.LastErr
	switch {
	case err != nil:
	case state == supervisor.Preparing:
		err = errUnready
	default:
		err = errUnfinished
	}
	if f.Takeover != "" && errors.Is(err, lock.ErrFull) {
		err = fmt.Errorf("%w; this takeover was waiting for %s", err, f.Takeover)
	}
	return fmt.Errorf("%s not obtained within %s: %w", f.Policy.ID, f.Policy.Timeout, err)
}

// notReached is for a backend that was being reached when the time was over, and
// that says only now that it was not.
func notReached(f Facts) Ending {
	if errors.Is(f.Ending.Exit.Err, errUnfinished) && errors.Is(f.Err, lock.ErrUnreachable) {
		f.LastErr = lock.ErrUnreachable
		f.Ending.Exit.Err = timedOut(supervisor.Quitting, f)
	}
	return f.Ending
}

// ErrNotVerified is the loss of a slot of which nothing was known for too long.
var ErrNotVerified = fmt.Errorf("not verified in time: %w", lock.ErrLost)

// afterLoss is for what speaks against the slot. While a command runs, a loss only
// becomes the reason of its end: what then, its death decides. Without one, the slot
// is given up.
func afterLoss(state supervisor.State, on Event, f Facts) Ending {
	switch {
	case state.Idle():
		// A slot in which the command has run is kept for as long as nothing proves
		// its loss: it can often be claimed again.
		unused := f.Use == Unused && (on == NotReady || on == LossReported)
		if unused || lossProven.holds(f) && !(state == supervisor.Preparing && on == Unverified) {
			return afterIdleLoss(f)
		}
	case state.Keeping(), state == supervisor.Stopping:
		if lossProven.holds(f) {
			return Ending{Reason: Lost, Exit: exit{Err: f.Err}}
		}
	}
	return f.Ending
}

// afterIdleLoss is for a slot that was lost, or never became ours for certain, while
// no command ran in it. A loss ends what has run: before that the slot was not
// obtained.
func afterIdleLoss(f Facts) Ending {
	reason := f.Err
	switch {
	case f.Use != Unused:
	case errors.Is(reason, lock.ErrDisconnected):
		reason = lock.Errorf(lock.ErrUnreachable, "%s", reason.Error())
	case errors.Is(reason, lock.ErrLost):
		reason = lock.Errorf(lock.ErrUnknown, "%s", reason.Error())
	}
	if f.Hopeless(reason) || f.Use != Unused && f.lossEnds() {
		return Ending{Reason: Lost, Exit: exit{Err: fmt.Errorf("%s: %w", f.Policy.ID, reason)}, Then: End}
	}
	return Ending{Reason: Lost, Exit: exit{Err: reason}, Then: Queue}
}

// afterRequest is for a holder that steps down because it was asked to. While a command runs, what then its death decides.
func afterRequest(state supervisor.State, f Facts) Ending {
	if state.Idle() {
		return f.steppedDown()
	}
	return Ending{Reason: Asked}
}

// steppedDown goes to the end of the line, or ends where nothing is waited for there: as the last run did, or as one
// that has not obtained the slot.
func (f Facts) steppedDown() Ending {
	asked := Ending{Reason: Asked, Then: Queue}
	if f.Policy.Try || f.HungUp() {
		asked.Then = End
	}
	switch c := f.Command; {
	case c.Hook == "" && c.Phase == NotExecuted:
		asked.Exit = supervisor.NotExecuted(c.Err)
	case f.Use == HasRun:
		asked.Exit.Status = supervisor.EndedStatus(c.Status)
	default:
		asked.Exit.Err = fmt.Errorf("%s: %w: asked to step down before the command was started", f.Policy.ID, lock.ErrUnknown)
	}
	return asked
}

// afterDeath decides what follows the end of the command's last process: the slot
// may be used by somebody again, us included.
func afterDeath(f Facts) Ending {
	if f.Command.Hook != "" {
		return afterHook(f)
	}
	c, told, lost := f.Command, f.Ending.Reason == Told, f.Ending.Reason == Lost
	fell := !c.Started() && f.Guard.Orphans // the guard, before it began to start anything
	ended := Ending{Reason: Finished, Exit: exit{Status: supervisor.EndedStatus(c.Status)}, Then: End}
	switch {
	// Nothing was started, as far as is known.
	case told && (fell || c.Phase == Beginning || c.Phase == Accepted || c.Phase == Alive):
		return f.Ending
	case f.Ending.Reason == Unguarded:
		return f.Ending
	case f.Ending.Reason == Asked && !(c.ByItself && !f.restarts()):
		return f.steppedDown()
	case f.Ending.Reason == Failing, f.Ending.Reason == Overran:
		return afterCut(f)
	case fell && !lost && f.GuardDeaths < maxGuardDeaths:
		return Ending{Then: NextGuard}
	case fell && !lost:
		cause := fmt.Errorf("cannot execute the command: %d guards died before they could start it", f.GuardDeaths+1)
		return Ending{Reason: Unguarded, Exit: exit{Status: supervisor.ExitCannotExecute, Err: cause}, Then: End}
	case c.Phase == NotExecuted && f.Use == HasRun && !told && !lost && !f.HungUp():
		return Ending{Then: StartAgain}
	case c.Phase == NotExecuted && (!lost || f.Use != HasRun):
		return Ending{Reason: NotBegun, Exit: supervisor.NotExecuted(c.Err), Then: End}
	case told:
		f.Ending.Exit.Status = ended.Exit.Status
		return f.Ending
	case c.ByItself && !f.restarts():
		return ended
	case lost && f.lossEnds():
		return Ending{Reason: Lost, Exit: exit{Err: fmt.Errorf("%s: %w", f.Policy.ID, f.Ending.Exit.Err)}, Then: End}
	case lost:
		return Ending{Reason: Lost, Exit: f.Ending.Exit, Then: Queue}
	case f.restarts():
		return Ending{Then: StartAgain}
	}
	return ended
}

// afterHook decides what follows the end of a hook. How those for the end of a slot go changes
// nothing.
func afterHook(f Facts) Ending {
	if f.Command.Hook != supervisor.OnAcquire {
		return f.Ending
	}
	switch f.Ending.Reason {
	case Told, Unguarded:
		return f.Ending
	case Asked:
		return f.steppedDown()
	case Lost:
		f.Err = f.Ending.Exit.Err
		return afterIdleLoss(f)
	}
	problem := f.Command.Problem()
	if problem == "" {
		return Ending{Then: Proceed}
	}
	cause := fmt.Errorf("%s: %w: %s", f.Policy.ID, supervisor.ErrRefused, problem)
	refusal := Ending{Reason: Refused, Exit: exit{Err: cause}, Then: Queue}
	if f.Policy.Try {
		refusal.Then = End
	}
	return refusal
}

// Problem says in a few words what went wrong with a hook that has ended, "" if nothing did.
func (c Command) Problem() string {
	switch {
	case c.Overtime:
		return "it took too long and was killed"
	case c.Phase == NotExecuted:
		return fmt.Sprintf("it cannot be executed: %v", c.Err)
	case c.Phase != Over:
		return "its guard died"
	}
	return supervisor.Failure(c.Status)
}

// lossEnds reports whether berth ends when a slot is lost in which the command
// has run. With --try there is no second attempt, and without the terminal that
// it was started from nobody wants one.
func (f Facts) lossEnds() bool {
	return f.Policy.OnLoss == supervisor.NoRetry || f.Policy.Try || f.HungUp()
}

// restarts reports whether a command that ended by itself is to be started
// again. One that the user ended at the terminal, or with it, is not.
func (f Facts) restarts() bool {
	if f.Command.AtTerminal || f.HungUp() {
		return false
	}
	return f.Policy.Restarts() && (f.Policy.Restart == supervisor.Always || f.Command.Status != 0)
}

// Ends reports whether berth itself is about to end, as far as is known: while the
// command is being ended, what its death would decide now.
func (f Facts) Ends(state supervisor.State) bool {
	switch {
	case state.Final():
		return true
	case state.Ending():
		return afterDeath(f).Then == End
	}
	return f.Ending.Then == End
}
