package machine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/lock"
	"berth/supervisor"
)

var (
	errRefused = lock.Errorf(lock.ErrDenied, "no permission")
	errUnsafe  = lock.Errorf(lock.ErrUnsafe, "the lease is too short")
	errGone    = lock.Errorf(lock.ErrUnreachable, "no broker")
	errNoGuard = errors.New("clone: operation not permitted")

	told   = Ending{Reason: Told, Signal: unix.SIGTERM, Exit: exit{Status: 143}, Then: End}
	before = Ending{Reason: Lost, Exit: exit{Err: errTaken}, Then: Queue} // of the slot that was held last
)

// after is the ending that an event makes of what was so.
func after(t *testing.T, s supervisor.State, on Event, is ...change) Ending {
	t.Helper()
	f := facts()
	f.Policy.Timeout, f.Signal = 5*time.Second, unix.SIGTERM
	so(is...)(&f)
	if _, found := Next(s, on, &f); !found {
		t.Errorf("%q does not come in %q", on, s)
	}
	return f.Ending
}

func fails(err error) change       { return func(f *Facts) { f.Err = err } }
func because(e Ending) change      { return func(f *Facts) { f.Ending = e } }
func inTheWay(err error) change    { return func(f *Facts) { f.LastErr = err } }
func admittedBefore(f *Facts)      { f.Admitted = true }
func phase(p Phase) change         { return func(f *Facts) { f.Command = Command{Phase: p} } }
func takesOver(what string) change { return func(f *Facts) { f.Takeover = what } }
func hangsUp(f *Facts)             { f.HungUp = func() bool { return true } }
func exits(f *Facts)               { f.Policy.OnLoss = supervisor.NoRetry }

// is checks an ending; cause is what it wraps, and says what it contains.
func is(t *testing.T, what string, got, want Ending, cause error, says ...string) {
	t.Helper()
	if cause != nil && !errors.Is(got.Exit.Err, cause) || (cause == nil) != (got.Exit.Err == nil) {
		t.Errorf("%s: cause %v, want %v", what, got.Exit.Err, cause)
	}
	for _, text := range says {
		if got.Exit.Err == nil || !strings.Contains(got.Exit.Err.Error(), text) {
			t.Errorf("%s: %v does not say %q", what, got.Exit.Err, text)
		}
	}
	if got.Exit.Err, want.Exit.Err = nil, nil; got != want {
		t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

// Whatever has ended the last slot says nothing about the next one.
func TestSlotThatIsWonEndsWhatWasBefore(t *testing.T) {
	is(t, "won", after(t, supervisor.Attempting, Acquired, because(before)), Ending{}, nil)
	is(t, "not won", after(t, supervisor.Attempting, NotAcquired, because(before), isFull), before, errTaken)
	is(t, "not fit", after(t, supervisor.Connecting, Connected, because(before), notFit), before, errTaken)
	is(t, "won too late", after(t, supervisor.Quitting, Acquired, because(told)), told, nil)
	is(t, "won too late, not fit", after(t, supervisor.Quitting, Acquired, because(told), notFit), told, nil)
}

func TestNoSlotIsTakenBeforeACheckHasSucceeded(t *testing.T) {
	is(t, "it waits", after(t, supervisor.Attempting, Acquired, notFit), Ending{Reason: Failing, Then: Queue}, ErrUnfit,
		"--health-while-waiting")
	is(t, "--try", after(t, supervisor.Attempting, Acquired, notFit, isTry), Ending{Reason: Failing, Then: End}, ErrUnfit,
		`mutex "m" not obtained`)
	is(t, "the time is over", after(t, supervisor.Attempting, TimedOut, notFit), Ending{Reason: Timeout, Then: End},
		lock.ErrUnknown)
	for _, s := range append(calling, supervisor.Pausing) {
		is(t, "it fails", after(t, s, Unhealthy, because(before)), before, errTaken)
		is(t, "it fails, --try", after(t, s, Unhealthy, because(before), isTry), Ending{Reason: Failing, Then: End}, ErrUnfit)
	}
	if !errors.Is(ErrUnfit, lock.ErrUnknown) {
		t.Error("the exit status would not be that of a slot that was not obtained")
	}
}

func TestCommandThatFailsItsChecksOrRunsTooLong(t *testing.T) {
	for _, s := range in(supervisor.Running, supervisor.InDoubt) {
		for _, try := range []change{plain, isTry} { // its death says what then
			is(t, "checks", after(t, s, Unhealthy, try), Ending{Reason: Failing}, nil)
			is(t, "--max-run", after(t, s, RunOver, try), Ending{Reason: Overran}, nil)
		}
	}
	is(t, "told before", after(t, supervisor.Running, RunOver, because(told)), told, nil)
}

func TestReleaseThatDoesNotReturn(t *testing.T) {
	is(t, "while it releases", after(t, supervisor.Releasing, Stuck, because(told)), Ending{Reason: Unanswered, Then: End},
		lock.ErrUnreachable, `mutex "m"`, "did not return")
	is(t, "while it quits", after(t, supervisor.Quitting, Stuck, because(told)), told, nil)
}

func TestWhatWasNotObtained(t *testing.T) {
	notObtained := Ending{Reason: NotObtained, Then: End}
	for on, s := range map[Event]supervisor.State{
		NotConnected: supervisor.Connecting, NotAcquired: supervisor.Attempting, NotWoken: supervisor.Waiting,
	} {
		for name, c := range map[string]struct {
			is    change
			ends  bool
			cause error
		}{
			"full":                           {isFull, false, nil},
			"full, --try":                    {so(isFull, isTry), true, lock.ErrFull},
			"no broker":                      {noBroker, false, nil},
			"no broker, --try":               {so(noBroker, isTry), true, lock.ErrUnreachable},
			"a refusal from the beginning":   {fails(errRefused), true, lock.ErrDenied},
			"a refusal later":                {so(fails(errRefused), admittedBefore), false, nil},
			"it would not be safe":           {fails(errUnsafe), true, lock.ErrUnsafe},
			"it is not safe any more":        {so(fails(errUnsafe), admittedBefore), true, lock.ErrUnsafe},
			"a refusal later, without hope":  {so(fails(errRefused), admittedBefore, isTry), true, lock.ErrDenied},
			"something else at the outset":   {doubt, false, nil},
			"something else with no waiting": {so(doubt, isTry), true, lock.ErrInDoubt},
		} {
			got := after(t, s, on, because(before), c.is)
			if c.ends {
				is(t, fmt.Sprintf("%s: %s", on, name), got, notObtained, c.cause)
			} else {
				is(t, fmt.Sprintf("%s: %s", on, name), got, before, errTaken)
			}
			hint := got.Exit.Err != nil && strings.Contains(got.Exit.Err.Error(), "without --try berth waits for it")
			if hint != errors.Is(c.cause, lock.ErrFull) {
				t.Errorf("%s: %s: %v", on, name, got.Exit.Err)
			}
		}
	}
}

func TestTimeThatIsOverSaysWhy(t *testing.T) {
	late := Ending{Reason: Timeout, Then: End}
	text := `mutex "m" not obtained within 5s`
	for _, s := range append(calling, supervisor.Pausing) {
		is(t, "nothing is known", after(t, s, TimedOut), late, lock.ErrUnknown, text, "no attempt was finished")
		is(t, "none was free", after(t, s, TimedOut, inTheWay(lock.ErrFull)), late, lock.ErrFull, text)
		is(t, "takeover", after(t, s, TimedOut, inTheWay(lock.ErrFull), takesOver("slot 2")), late, lock.ErrFull,
			"this takeover was waiting for slot 2")
		for name, is := range map[string]change{
			"no takeover": inTheWay(lock.ErrFull), "no broker": so(inTheWay(errGone), takesOver("slot 2")),
		} {
			if got := after(t, s, TimedOut, is); strings.Contains(got.Exit.Err.Error(), "takeover") {
				t.Errorf("%s: %v", name, got.Exit.Err)
			}
		}
	}
	is(t, "a slot was won", after(t, supervisor.Preparing, TimedOut), late, lock.ErrUnknown, "a slot was won")
	is(t, "and it is known what was in the way", after(t, supervisor.Preparing, TimedOut, inTheWay(lock.ErrFull)), late,
		lock.ErrFull)
}

// A call may find out that there is no broker when nobody waits for it any more. That says more than nothing.
func TestBrokerThatIsNotReachedInTime(t *testing.T) {
	late := after(t, supervisor.Connecting, TimedOut)
	want := Ending{Reason: Timeout, Then: End}
	is(t, "there is none", after(t, supervisor.Quitting, NotConnected, because(late), fails(errGone)), want,
		lock.ErrUnreachable, "within 5s")
	got := after(t, supervisor.Quitting, NotConnected, because(late), fails(errRefused))
	is(t, "it refuses", got, want, lock.ErrUnknown, "no attempt was finished")
	full := after(t, supervisor.Waiting, TimedOut, inTheWay(lock.ErrFull))
	is(t, "it was there before", after(t, supervisor.Quitting, NotConnected, because(full), fails(errGone)), want,
		lock.ErrFull)
	is(t, "a signal was first", after(t, supervisor.Quitting, NotConnected, because(told), fails(errGone)), told, nil)
	got = after(t, supervisor.Quitting, NotAcquired, because(late), fails(errGone))
	is(t, "it was reached", got, want, lock.ErrUnknown, "no attempt was finished")
}

func TestWithoutAGuardBerthEnds(t *testing.T) {
	unguarded := Ending{Reason: Unguarded, Exit: exit{Status: 126}, Then: End}
	for _, s := range slices.Concat(calling, idling, in(supervisor.Pausing)) {
		is(t, string(s), after(t, s, GuardUnusable, fails(errNoGuard)), unguarded, errNoGuard)
		is(t, string(s), after(t, s, GuardUnusable, fails(errNoGuard), used, because(before)), unguarded, errNoGuard)
	}
	is(t, "for a first run", after(t, supervisor.Preparing, NoGuard, fails(errNoGuard)), unguarded, errNoGuard)
	is(t, "for another hook", after(t, supervisor.Preparing, NoGuard, fails(errNoGuard), ordered), unguarded, errNoGuard)
	// What could be started before will be again.
	is(t, "for another run", after(t, supervisor.Preparing, NoGuard, fails(errNoGuard), used), Ending{}, nil)
	is(t, "none, though one has worked", after(t, supervisor.Preparing, NoGuard, fails(errNoGuard), worked), unguarded,
		errNoGuard)
	is(t, "though one has worked", after(t, supervisor.Resting, GuardUnusable, fails(errNoGuard), worked), Ending{}, nil)

	lost := Ending{Reason: Lost, Exit: exit{Err: errTaken}}
	is(t, "a command that is being killed", after(t, supervisor.Losing, GuardUnusable, fails(errNoGuard),
		phase(Beginning), because(lost)), lost, errTaken)
	is(t, "a command that is stopped", after(t, supervisor.Stopping, GuardUnusable, fails(errNoGuard), phase(Beginning),
		because(Ending{Reason: Asked})), unguarded, errNoGuard)
	is(t, "told before", after(t, supervisor.Stopping, GuardUnusable, fails(errNoGuard), phase(Beginning),
		because(told)), told, nil)
}

func TestLossIsTheReasonWhileSomethingRuns(t *testing.T) {
	lost := Ending{Reason: Lost}
	for _, s := range without(alive, supervisor.Leaving) {
		for on, err := range map[Event]error{
			LossReported: errTaken, Unverified: errTaken, LossDue: ErrNotVerified, Overdue: ErrNotVerified,
		} {
			is(t, fmt.Sprintf("%s in %q", on, s), after(t, s, on, fails(err)), lost, err)
			is(t, fmt.Sprintf("%s in %q, asked before", on, s), after(t, s, on, fails(err), because(Ending{Reason: Asked})),
				lost, err)
			is(t, fmt.Sprintf("%s in %q, told before", on, s), after(t, s, on, fails(err), because(told)), told, nil)
		}
		for _, on := range []Event{LossReported, Unverified} {
			is(t, fmt.Sprintf("a doubt in %q", s), after(t, s, on, doubt), Ending{}, nil)
		}
	}
}

func TestLossOfASlotInWhichNothingRuns(t *testing.T) {
	given := Ending{Reason: Lost, Then: Queue}
	ended := Ending{Reason: Lost, Then: End}
	for name, c := range map[string]struct {
		s     supervisor.State
		on    Event
		is    change
		want  Ending
		cause error
	}{
		"a doubt before the first run":     {supervisor.Preparing, LossReported, doubt, given, lock.ErrInDoubt},
		"a doubt between two runs":         {supervisor.Resting, LossReported, so(used, doubt), Ending{}, nil},
		"proof between two runs":           {supervisor.Resting, LossReported, so(used, proof), given, lock.ErrLost},
		"a verification is proof":          {supervisor.Resting, Unverified, so(used, proof), given, lock.ErrLost},
		"a verification is none":           {supervisor.Resting, Unverified, so(used, doubt), Ending{}, nil},
		"one that was cancelled":           {supervisor.Preparing, Unverified, proof, Ending{}, nil},
		"one that was cancelled, a doubt":  {supervisor.Preparing, Unverified, doubt, Ending{}, nil},
		"no proof in time":                 {supervisor.Resting, LossDue, so(used, overdue), given, lock.ErrLost},
		"no proof in time, not used":       {supervisor.Preparing, LossDue, overdue, given, lock.ErrUnknown},
		"proof, --on-loss exit":            {supervisor.Resting, LossReported, so(used, proof, exits), ended, lock.ErrLost},
		"proof, the terminal is gone":      {supervisor.Resting, LossReported, so(used, proof, hangsUp), ended, lock.ErrLost},
		"the same, not used":               {supervisor.Preparing, LossReported, so(proof, hangsUp), given, lock.ErrUnknown},
		"cut off, not used":                {supervisor.Preparing, LossReported, fails(lock.ErrDisconnected), given, lock.ErrUnreachable},
		"it is not safe, not used":         {supervisor.Preparing, NotReady, fails(errUnsafe), ended, lock.ErrUnsafe},
		"it is not safe, between two runs": {supervisor.Preparing, NotReady, so(used, fails(errUnsafe)), Ending{}, nil},
	} {
		is(t, name, after(t, c.s, c.on, c.is), c.want, c.cause)
	}
}

// asked is the ending that a request to step down makes of what was so: where it is agreed to, and where it is not.
func asked(t *testing.T, s supervisor.State, is ...change) Ending {
	t.Helper()
	f := facts()
	so(is...)(&f)
	row, _ := Next(s, AskedToGo, &f)
	if row.Do != Agree {
		return f.Ending
	}
	return after(t, s, Agreed, is...)
}

func TestHolderThatIsAskedStepsDown(t *testing.T) {
	ended := func(f *Facts) { used(f); f.Command = over(failed) }
	for _, s := range idling {
		is(t, "nothing has run", asked(t, s), Ending{Reason: Asked, Then: Queue}, lock.ErrUnknown,
			`mutex "m"`, "before the command was started")
		is(t, "it has run", asked(t, s, ended), Ending{Reason: Asked, Exit: exit{Status: 3}, Then: Queue}, nil)
		is(t, "--try", asked(t, s, ended, isTry), Ending{Reason: Asked, Exit: exit{Status: 3}, Then: End}, nil)
		is(t, "hung up", asked(t, s, ended, hangsUp), Ending{Reason: Asked, Exit: exit{Status: 3}, Then: End}, nil)
	}
	for _, s := range in(supervisor.Entering, supervisor.Starting, supervisor.Running, supervisor.InDoubt) {
		is(t, string(s), asked(t, s), Ending{Reason: Asked}, nil)
	}

	// One that is stopped goes, and what then is said already, unless it would be started again.
	restarts := func(f *Facts) { f.Policy.Restart = supervisor.Always }
	for _, reason := range []Reason{Failing, Overran} {
		cut := Ending{Reason: reason}
		is(t, "it is cut", asked(t, supervisor.Stopping, because(cut)), cut, nil)
		is(t, "it is cut, to be started again", asked(t, supervisor.Stopping, because(cut), restarts),
			Ending{Reason: Asked}, nil)
	}
	is(t, "what it left is ended", asked(t, supervisor.Stopping), Ending{Reason: Asked}, nil)
	lost := Ending{Reason: Lost, Exit: exit{Err: errTaken}}
	is(t, "it is lost", asked(t, supervisor.Stopping, because(lost), restarts), lost, errTaken)
}

func TestDeathOfTheTreeThatIsNotTheCommands(t *testing.T) {
	fell := func(n int) change {
		return func(f *Facts) { guardFell(f); f.Use, f.GuardDeaths = Ordered, n }
	}
	dies := func(is ...change) Ending { return after(t, supervisor.Starting, TreeDied, is...) }
	many := dies(fell(3))
	is(t, "a guard too many", many, Ending{Reason: Unguarded, Exit: exit{Status: 126}, Then: End}, many.Exit.Err,
		"4 guards died")
	unguarded := Ending{Reason: Unguarded, Exit: exit{Status: 126, Err: errNoGuard}, Then: End}
	is(t, "no guard", dies(func(f *Facts) { f.Command = over(0) }, because(unguarded)), unguarded, errNoGuard)
	// A guard that falls once the command runs says nothing of its beginning.
	is(t, "its guard fell while it ran", dies(fell(0), phase(Alive)), Ending{Reason: Finished, Then: End}, nil)
	is(t, "its guard fell after it had ended", dies(fell(0), func(f *Facts) { f.Command = over(failed) }),
		Ending{Reason: Finished, Exit: exit{Status: 3}, Then: End}, nil)

	// Told, and nothing was started as far as is known: the status is the signal's, whatever else may follow.
	is(t, "told before it began", dies(fell(0), because(told)), told, nil)
	is(t, "told, and it did not begin", dies(fell(0), phase(NotExecuted), because(told)), told, nil)
	is(t, "told, it was to begin", dies(phase(Beginning), because(told)), told, nil)
	is(t, "told, it was about to begin", dies(phase(Accepted), because(told)), told, nil)

	asked := Ending{Reason: Asked}
	ended := func(f *Facts) { f.Command, f.Use = over(failed), HasRun }
	again := func(f *Facts) { f.Policy.Restart = supervisor.Always }
	is(t, "--on-loss exit is about the slot alone", dies(ended, again, exits), Ending{Then: StartAgain}, nil)
	is(t, "asked, and it ended by itself", dies(ended, because(asked)),
		Ending{Reason: Finished, Exit: exit{Status: 3}, Then: End}, nil)
	is(t, "asked, and it would start again", dies(ended, because(asked), again),
		Ending{Reason: Asked, Exit: exit{Status: 3}, Then: Queue}, nil)
}

func TestWhatWentWrongWithAHook(t *testing.T) {
	for want, c := range map[string]Command{
		"":                                {Phase: Over},
		"it took too long and was killed": {Phase: Over, Overtime: true, Status: failed},
		"it cannot be executed: no such file or directory": {Phase: NotExecuted, Err: unix.ENOENT},
		"its guard died":    {Phase: Alive},
		"it ended with 3":   {Phase: Over, Status: failed},
		"signal 9 ended it": {Phase: Over, Status: 9},
	} {
		if got := c.Problem(); got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
}

func TestWhetherBerthIsAboutToEnd(t *testing.T) {
	ends := Ending{Reason: Told, Exit: exit{Status: 143}, Then: End}
	for _, s := range supervisor.States() {
		f := facts()
		f.Command = over(0) // by itself, not to be started again: its death ends berth
		dying := s == supervisor.Stopping || s == supervisor.Losing
		quits := s == supervisor.Quitting || s == supervisor.Ended
		if got := f.Ends(s); got != (dying || quits) {
			t.Errorf("%q: %v", s, got)
		}
		f.Policy.Restart = supervisor.Always
		if got := f.Ends(s); got != quits {
			t.Errorf("%q, to be started again: %v", s, got)
		}
		if f.Ending = ends; !f.Ends(s) {
			t.Errorf("%q, told", s)
		}
	}
}

func TestCommandThatRunsHasStarted(t *testing.T) {
	for phase, want := range map[Phase]bool{Absent: false, Beginning: false, Accepted: false, NotExecuted: false, Alive: true, Over: true} {
		if got := (Command{Phase: phase}).Started(); got != want {
			t.Errorf("phase %d: %v", phase, got)
		}
	}
}
