package machine

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"berth/lock"
	"berth/supervisor"
)

type states = []supervisor.State

var (
	// In these a call of the lock's methods is under way, and no slot is held.
	calling = states{supervisor.Connecting, supervisor.Attempting, supervisor.Waiting}

	// In these a slot is held in which nothing runs.
	idling = states{supervisor.Preparing, supervisor.Resting}

	// In these a command may be alive, in these a hook. Each is verified, or being ended because of the slot.
	commands = states{supervisor.Starting, supervisor.Running, supervisor.InDoubt, supervisor.Stopping}
	hooks    = states{supervisor.Entering, supervisor.Leaving}
	alive    = slices.Concat(commands, hooks)
	losing   = states{supervisor.Losing}
)

// in is a list of states.
func in(list ...supervisor.State) states { return list }

// without returns the states that are not among the others.
func without(all states, others ...supervisor.State) states {
	return slices.DeleteFunc(slices.Clone(all), func(s supervisor.State) bool { return slices.Contains(others, s) })
}

// What can be so when an event comes.
type change = func(*Facts)

func so(changes ...change) change {
	return func(f *Facts) {
		for _, c := range changes {
			c(f)
		}
	}
}

var (
	plain     = func(*Facts) {}
	used      = func(f *Facts) { f.Use = HasRun }
	ordered   = func(f *Facts) { f.Use = Ordered }
	hooked    = func(f *Facts) { f.Policy.OnAcquire, f.Policy.OnRelease, f.Policy.OnLost = true, true, true }
	last      = func(f *Facts) { f.Last = true }
	freezes   = func(f *Facts) { f.Policy.Freeze = true }
	isGone    = func(f *Facts) { f.HasGuard = false }
	worked    = func(f *Facts) { f.Guarded = true }
	wasLost   = func(f *Facts) { f.Lost = true }
	proof     = func(f *Facts) { f.Err = errTaken }
	overdue   = func(f *Facts) { f.Err = ErrNotVerified }
	doubt     = func(f *Facts) { f.Err = errDoubt }
	doubts    = func(f *Facts) { f.Doubted = true }
	isTry     = func(f *Facts) { f.Policy.Try = true }
	restarts  = func(f *Facts) { f.Policy.Restart = supervisor.Always }
	leftovers = func(f *Facts) { f.Guard.Left = true }
	notFit    = func(f *Facts) { f.Unfit = true }
	isFull    = func(f *Facts) { f.Err = lock.ErrFull }
	noBroker  = func(f *Facts) { f.Err = lock.ErrUnreachable }
	ends      = func(f *Facts) { f.Ending = Ending{Reason: Told, Exit: exit{Status: 143}, Then: End} }
	queues    = func(f *Facts) { f.Ending = Ending{Reason: Lost, Then: Queue} }
	guardFell = func(f *Facts) { f.Command, f.Guard.Orphans = Command{Phase: Beginning}, true }
	entering  = func(f *Facts) { f.Command.Hook = supervisor.OnAcquire }
	refuses   = func(f *Facts) { f.Command.Hook, f.Command.Status = supervisor.OnAcquire, failed }
)

// rules say what each event does, in all states in which it can come. They are told by what has to be so, and not by the
// rows of the table.
var rules = []struct {
	why  string
	on   Event
	in   states
	when change
	do   Action
	to   supervisor.State
}{
	// Nothing outlives the slot: whatever may be alive is killed before anybody else may start.
	{"the deadline has passed", Overdue, alive, overdue, Lose, supervisor.Losing},
	{"the loss sequence just fits", LossDue, alive, overdue, Lose, supervisor.Losing},
	{"proof that the slot is lost", LossReported, alive, proof, Lose, supervisor.Losing},
	{"a verification is proof of it", Unverified, alive, proof, Lose, supervisor.Losing},
	{"a call of before is", NotReady, in(supervisor.Leaving), proof, Lose, supervisor.Losing},
	{"it is being killed", Overdue, losing, overdue, Nothing, stays},
	{"it is being killed", LossDue, losing, overdue, Nothing, stays},
	{"it is being killed", LossReported, losing, proof, Nothing, stays},
	{"it is being killed", Unverified, losing, proof, Nothing, stays},
	{"it is being killed", NotReady, losing, proof, Nothing, stays},
	{"what was asked before saves nothing", Verified, losing, plain, Nothing, stays},
	{"what was asked before saves nothing", Ready, losing, plain, Nothing, stays},
	{"the slot cannot be proven in time", LossDue, idling, so(used, overdue), ReleaseLost, supervisor.Releasing},
	{"nor before anything ran", LossDue, in(supervisor.Preparing), overdue, ReleaseLost, supervisor.Releasing},

	// A doubt kills nothing by itself: a connection that is gone can be made again.
	{"a verification without an answer", Unverified, without(alive, supervisor.Running), doubt, Doubt, stays},
	{"the first one", Unverified, in(supervisor.Running), doubt, TellDoubt, supervisor.InDoubt},
	{"the first one, to freeze", Unverified, in(supervisor.Running), so(doubt, freezes), TellAndFreeze, supervisor.InDoubt},
	{"a call of before without one", NotReady, in(supervisor.Leaving), doubt, Doubt, stays},
	{"a doubt", LossReported, without(alive, supervisor.Running), doubt, VerifyNow, stays},
	{"the first one", LossReported, in(supervisor.Running), doubt, VerifyNow, supervisor.InDoubt},
	{"the first one, to freeze", LossReported, in(supervisor.Running), so(doubt, freezes), FreezeAndVerify,
		supervisor.InDoubt},
	{"proof freezes nothing", LossReported, in(supervisor.Running), so(proof, freezes), Lose, supervisor.Losing},
	{"proof freezes nothing", Unverified, in(supervisor.Running), so(proof, freezes), Lose, supervisor.Losing},
	{"the slot is proven", Verified, without(alive, supervisor.InDoubt), plain, Renew, stays},
	{"the doubt is over", Verified, in(supervisor.InDoubt), plain, EndDoubt, supervisor.Running},
	{"the doubt is over, it was frozen", Verified, in(supervisor.InDoubt), freezes, Thaw, supervisor.Running},
	{"a call of before is proof", Ready, in(supervisor.Leaving), plain, Renew, stays},

	// A slot in which nothing has run is given up at once, one in which the command has run when its loss is proven.
	{"a doubt before the first run", LossReported, in(supervisor.Preparing), doubt, ReleaseLost, supervisor.Releasing},
	{"a doubt before the first run", NotReady, in(supervisor.Preparing), doubt, ReleaseLost, supervisor.Releasing},
	{"and berth ends, with --try", LossReported, in(supervisor.Preparing), so(doubt, isTry), ReleaseLost,
		supervisor.Releasing},
	{"a doubt between two runs", LossReported, idling, so(used, doubt), VerifyNow, stays},
	{"a doubt between two runs", NotReady, in(supervisor.Preparing), so(used, doubt), RestInDoubt, supervisor.Resting},
	{"a doubt between two runs", Unverified, in(supervisor.Resting), so(used, doubt), VerifyAgain, stays},
	{"proof between two runs", LossReported, idling, so(used, proof), ReleaseLost, supervisor.Releasing},
	{"proof between two runs", NotReady, in(supervisor.Preparing), so(used, proof), ReleaseLost, supervisor.Releasing},
	{"proof between two runs", Unverified, in(supervisor.Resting), so(used, proof), ReleaseLost, supervisor.Releasing},
	{"between two runs it is proven", Verified, in(supervisor.Resting), used, Renew, stays},
	{"a call that was cancelled", Verified, in(supervisor.Preparing), plain, Nothing, stays},
	{"a call that was cancelled", Unverified, in(supervisor.Preparing), proof, Nothing, stays},

	// A command starts in a slot that is ready and verified.
	{"without a hook", Ready, in(supervisor.Preparing), plain, Start, supervisor.Starting},
	{"with one, it is asked first", Ready, in(supervisor.Preparing), hooked, Enter, supervisor.Entering},
	{"again, it is not", Ready, in(supervisor.Preparing), so(hooked, ordered), Start, supervisor.Starting},
	{"without a guard", Ready, in(supervisor.Preparing), isGone, Launch, stays},
	{"without a guard, with a hook", Ready, in(supervisor.Preparing), so(hooked, isGone), Launch, stays},
	{"no guard can be launched at all", NoGuard, in(supervisor.Connecting), plain, Quit, supervisor.Ended},
	{"there is no guard for it", NoGuard, in(supervisor.Preparing), plain, Release, supervisor.Releasing},
	{"nor any more", NoGuard, in(supervisor.Preparing), used, RenewAndRest, supervisor.Resting},
	{"the time for it is over", TimedOut, in(supervisor.Preparing), plain, Release, supervisor.Releasing},
	{"it runs", Started, in(supervisor.Starting), plain, Nothing, supervisor.Running},
	{"it runs, to freeze if in doubt", Started, in(supervisor.Starting), freezes, Nothing, supervisor.Running},
	{"it runs, in a slot in doubt", Started, in(supervisor.Starting), doubts, Nothing, supervisor.InDoubt},
	{"it runs so, to freeze", Started, in(supervisor.Starting), so(doubts, freezes), Freeze, supervisor.InDoubt},
	{"it is to end already", Started, in(supervisor.Stopping, supervisor.Losing), plain, BeginSequence, stays},
	{"the hook runs", Started, in(supervisor.Entering, supervisor.Leaving, supervisor.Reporting), plain, Nothing, stays},
	{"the pause after a run is over", PauseOver, in(supervisor.Resting), used, PrepareAgain, supervisor.Preparing},

	// What the first process leaves running is ended too.
	{"it has left others", Exited, without(commands, supervisor.Stopping), leftovers, StopInOrder, supervisor.Stopping},
	{"it has left others, and was stopped", Exited, in(supervisor.Stopping), leftovers, TellRest, stays},
	{"a hook has", Exited, append(hooks, supervisor.Reporting), leftovers, KillRest, stays},
	{"they are being killed", Exited, losing, leftovers, Nothing, stays},
	{"nothing is left", Exited, slices.Concat(alive, losing, in(supervisor.Reporting)), plain, Nothing, stays},

	// The slot is given back when the tree is dead.
	{"it has ended", TreeDied, commands, ordered, Release, supervisor.Releasing},
	{"with a hook", TreeDied, commands, so(ordered, hooked), Leave, supervisor.Leaving},
	{"the guard gives the slot back", TreeDied, commands, so(ordered, hooked, last), Release, supervisor.Releasing},
	{"on_acquire was stopped", TreeDied, in(supervisor.Stopping), so(hooked, entering, ends), Release, supervisor.Releasing},
	{"it starts again", TreeDied, commands, so(used, hooked, restarts), Rest, supervisor.Resting},
	{"the slot is lost", TreeDied, losing, so(used, hooked, queues), Release, supervisor.Releasing},
	{"its guard fell before it started", TreeDied, in(supervisor.Starting), guardFell, PrepareRetry, supervisor.Preparing},
	{"on_acquire has no objection", TreeDied, in(supervisor.Entering), so(hooked, entering), Admit, supervisor.Preparing},
	{"on_acquire refuses", TreeDied, in(supervisor.Entering), so(hooked, refuses), Refuse, supervisor.Releasing},
	{"on_acquire was ended", TreeDied, in(supervisor.Entering), so(hooked, refuses, ends), Release, supervisor.Releasing},
	{"on_release has ended", TreeDied, in(supervisor.Leaving), so(used, hooked, ends), Release, supervisor.Releasing},
	{"on_lost has ended", TreeDied, in(supervisor.Reporting),
		so(func(f *Facts) { f.Command.Hook = supervisor.OnLost }, queues), QueueAgain, supervisor.Pausing},
	{"on_lost has ended, and so does berth", TreeDied, in(supervisor.Reporting),
		so(func(f *Facts) { f.Command.Hook = supervisor.OnLost }, ends), Nothing, supervisor.Ended},

	// A request that berth end is met, and the command gets the signal.
	{"a call is under way", ToldToEnd, calling, plain, Quit, supervisor.Quitting},
	{"no call is", ToldToEnd, in(supervisor.Pausing), plain, Quit, supervisor.Ended},
	{"nothing runs", ToldToEnd, idling, plain, Release, supervisor.Releasing},
	{"nothing ran, though it has a hook", ToldToEnd, idling, hooked, Release, supervisor.Releasing},
	{"nothing runs any more, and it has a hook", ToldToEnd, idling, so(used, hooked), Leave, supervisor.Leaving},
	{"the guard gives the slot back", ToldToEnd, idling, so(used, hooked, last), Release, supervisor.Releasing},
	{"it may be alive", ToldToEnd, append(without(commands, supervisor.Stopping), supervisor.Entering), plain, Stop,
		supervisor.Stopping},
	{"it is stopped already", ToldToEnd, in(supervisor.Stopping), plain, HandOn, stays},
	{"it is being killed", ToldToEnd, losing, plain, HandOnSooner, stays},
	{"berth is about to leave", ToldToEnd,
		in(supervisor.Leaving, supervisor.Releasing, supervisor.Reporting, supervisor.Quitting), plain, Nothing, stays},

	// A holder that is asked for its slot gives it up as one that is told to end does, and sends no signal of its own.
	{"it is held", AskedToGo, slices.Concat(idling, commands, in(supervisor.Entering)), plain, Agree, stays},
	{"it is being given back", AskedToGo, in(supervisor.Stopping), ends, TellGoing, stays},
	{"it is being given back", AskedToGo, in(supervisor.Losing, supervisor.Leaving, supervisor.Releasing), plain, TellGoing,
		stays},
	{"none is held", AskedToGo, append(calling, supervisor.Pausing, supervisor.Quitting, supervisor.Reporting), plain,
		Decline, stays},
	{"nothing runs", Agreed, idling, plain, Release, supervisor.Releasing},
	{"nothing runs any more, and it has a hook", Agreed, idling, so(used, hooked), Leave, supervisor.Leaving},
	{"it may be alive", Agreed, append(without(commands, supervisor.Stopping), supervisor.Entering), plain, StopInOrder,
		supervisor.Stopping},
	{"it is stopped already", Agreed, in(supervisor.Stopping), plain, Nothing, stays},
	{"it fails its checks", Unhealthy, in(supervisor.Running, supervisor.InDoubt), plain, StopInOrder, supervisor.Stopping},
	{"it has run for long enough", RunOver, in(supervisor.Running, supervisor.InDoubt), plain, StopInOrder,
		supervisor.Stopping},

	// Where no guard works, nothing can be run: no slot is kept from others.
	{"a call is under way", GuardUnusable, calling, plain, Quit, supervisor.Quitting},
	{"no call is", GuardUnusable, in(supervisor.Pausing), plain, Quit, supervisor.Ended},
	{"a slot is held for nothing", GuardUnusable, idling, plain, Release, supervisor.Releasing},
	{"a slot is, though it has run", GuardUnusable, idling, used, Release, supervisor.Releasing},
	{"the death of the tree comes next, or was the end", GuardUnusable, in(supervisor.Starting, supervisor.Entering,
		supervisor.Stopping, supervisor.Losing, supervisor.Leaving, supervisor.Releasing, supervisor.Reporting,
		supervisor.Quitting), plain, Nothing, stays},

	{"another one could be used before", GuardUnusable, slices.Concat(calling, idling, in(supervisor.Pausing,
		supervisor.Quitting, supervisor.Starting, supervisor.Entering, supervisor.Stopping, supervisor.Losing,
		supervisor.Leaving, supervisor.Releasing, supervisor.Reporting)), worked, TellNoGuard, stays},

	// While there is no slot.
	{"attempts can be made", Connected, in(supervisor.Connecting), plain, Attempt, supervisor.Attempting},
	{"no check has succeeded", Connected, in(supervisor.Connecting), notFit, Withhold, supervisor.Pausing},
	{"nor while a slot was obtained", Acquired, in(supervisor.Attempting), notFit, Release, supervisor.Releasing},
	{"there is no broker", NotConnected, in(supervisor.Connecting), noBroker, Reconnect, supervisor.Pausing},
	{"there is none, with --try", NotConnected, in(supervisor.Connecting), so(noBroker, isTry), Nothing, supervisor.Ended},
	{"there is one again, maybe", PauseOver, in(supervisor.Pausing), plain, Connect, supervisor.Connecting},
	{"a slot is won", Acquired, in(supervisor.Attempting), plain, Prepare, supervisor.Preparing},
	{"none is free", NotAcquired, in(supervisor.Attempting), isFull, WaitForChange, supervisor.Waiting},
	{"none is, with --try", NotAcquired, in(supervisor.Attempting), so(isFull, isTry), Nothing, supervisor.Ended},
	{"the broker is gone", NotAcquired, in(supervisor.Attempting), noBroker, Reconnect, supervisor.Pausing},
	{"something has changed", Woken, in(supervisor.Waiting), plain, Attempt, supervisor.Attempting},
	{"the broker is gone", NotWoken, in(supervisor.Waiting), noBroker, Reconnect, supervisor.Pausing},
	{"it is gone, with --try", NotWoken, in(supervisor.Waiting), so(noBroker, isTry), Nothing, supervisor.Ended},
	{"the time for it is over", TimedOut, calling, plain, Quit, supervisor.Quitting},
	{"the time for it is over", TimedOut, in(supervisor.Pausing), plain, Quit, supervisor.Ended},
	{"checks fail here", Unhealthy, append(calling, supervisor.Pausing), plain, Nothing, stays},
	{"checks fail here, with --try", Unhealthy, calling, isTry, Quit, supervisor.Quitting},
	{"checks fail here, with --try", Unhealthy, in(supervisor.Pausing), isTry, Quit, supervisor.Ended},

	// Berth ends once the call has: a slot that it has won goes back.
	{"the call has ended", Connected, in(supervisor.Quitting), ends, Nothing, supervisor.Ended},
	{"the call has ended", NotConnected, in(supervisor.Quitting), ends, Nothing, supervisor.Ended},
	{"the call has ended", NotAcquired, in(supervisor.Quitting), ends, Nothing, supervisor.Ended},
	{"the call has ended", Woken, in(supervisor.Quitting), ends, Nothing, supervisor.Ended},
	{"the call has ended", NotWoken, in(supervisor.Quitting), ends, Nothing, supervisor.Ended},
	{"the call does not end", Stuck, in(supervisor.Quitting), ends, Nothing, supervisor.Ended},
	{"the call has won a slot", Acquired, in(supervisor.Quitting), so(ends, notFit), Release, supervisor.Releasing},
	{"berth is ending", TimedOut, in(supervisor.Quitting), ends, Nothing, stays},

	// After the slot.
	{"it is given back", Released, in(supervisor.Releasing), queues, QueueAgain, supervisor.Pausing},
	{"it is given back, and berth ends", Released, in(supervisor.Releasing), ends, Nothing, supervisor.Ended},
	{"it was lost in use", Released, in(supervisor.Releasing), so(hooked, ordered, wasLost, queues), Report,
		supervisor.Reporting},
	{"it was lost in use, and berth ends", Released, in(supervisor.Releasing), so(hooked, used, wasLost, ends), Report,
		supervisor.Reporting},
	{"it was lost before that", Released, in(supervisor.Releasing), so(hooked, wasLost, queues), QueueAgain,
		supervisor.Pausing},
	{"it was not lost", Released, in(supervisor.Releasing), so(hooked, used, queues), QueueAgain, supervisor.Pausing},
	{"it was lost, and nothing is to be said", Released, in(supervisor.Releasing), so(used, wasLost, queues), QueueAgain,
		supervisor.Pausing},
	{"the broker does not answer", Stuck, in(supervisor.Releasing), plain, LeaveStuck, supervisor.Ended},
	{"a call of before", Verified, in(supervisor.Releasing), plain, Nothing, stays},
	{"a call of before", Unverified, in(supervisor.Releasing), proof, Nothing, stays},
	{"a call of before", Ready, in(supervisor.Releasing), plain, Nothing, stays},
	{"a call of before", NotReady, in(supervisor.Releasing), proof, Nothing, stays},
	{"it is given up already", LossReported, in(supervisor.Releasing), proof, Nothing, stays},
	{"it was obtained", TimedOut, in(supervisor.Releasing), plain, Nothing, stays},
}

func TestWhatEventsDo(t *testing.T) {
	for _, r := range rules {
		for _, s := range r.in {
			f := facts()
			f.Command, f.Signal = over(0), unix.SIGTERM
			r.when(&f)
			row, found := Next(s, r.on, &f)
			if !found || row.Do != r.do || row.To != r.to {
				t.Errorf("%q in %q, %s: %q, to %q (%v); want %q, to %q", r.on, s, r.why, row.Do, row.To, found, r.do, r.to)
			}
		}
	}
}

func TestEveryEventOfAStateHasARule(t *testing.T) {
	for _, s := range supervisor.States() {
		for _, row := range table[s] {
			known := false
			for _, r := range rules {
				known = known || r.on == row.On && slices.Contains(r.in, s)
			}
			if !known {
				t.Errorf("none says what %q does in %q", row.On, s)
			}
		}
	}
}

// kept reports whether the slot is still kept from others in a state, and what runs in it waited for.
func kept(s supervisor.State) bool { return slices.Contains(slices.Concat(alive, losing), s) }

func TestSlotIsKeptUntilTheTreeIsDead(t *testing.T) {
	for _, s := range slices.Concat(alive, losing) {
		for _, row := range table[s] {
			if row.To != stays && !kept(row.To) && row.On != TreeDied {
				t.Errorf("%q leads from %q to %q, while something may be alive", row.On, s, row.To)
			}
		}
	}
}

func TestNothingStartsWithoutProof(t *testing.T) {
	for _, s := range supervisor.States() {
		for _, row := range table[s] {
			starts := row.Do == Start || row.Do == Enter || row.To == supervisor.Starting || row.To == supervisor.Entering
			if starts && (row.On != Ready || s != supervisor.Preparing) {
				t.Errorf("%q in %q starts something", row.On, s)
			}
		}
	}
}

// A client is told whether a slot is given up, and only what agrees gives it up.
func TestRequestToStepDownIsAnswered(t *testing.T) {
	for _, s := range without(supervisor.States(), supervisor.Ended) {
		for _, is := range []change{plain, used, ends} {
			f := facts()
			is(&f)
			before := f.Ending
			row, _ := Next(s, AskedToGo, &f)
			if (row.Do == Decline) == s.Holding() || row.To != stays || f.Ending != before {
				t.Errorf("in %q: %q, to %q, %+v", s, row.Do, row.To, f.Ending)
			}
			if _, can := Next(s, Agreed, &f); row.Do == Agree && !can {
				t.Errorf("in %q it agrees, and does nothing about it", s)
			}
		}
	}
}

func TestNothingEscapesTheLossSequence(t *testing.T) {
	for _, row := range table[supervisor.Losing] {
		if row.To != stays && row.On != TreeDied {
			t.Errorf("%q leads out of it", row.On)
		}
	}
}
