package machine

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth/lock"
	"berth/supervisor"
)

var (
	mutex     = lock.ID{Kind: lock.Mutex, Name: "m"}
	errTaken  = lock.Errorf(lock.ErrLost, "somebody else has it")
	errDoubt  = lock.Errorf(lock.ErrInDoubt, "the connection is gone")
	errNoFile = errors.Join(supervisor.ErrNotExecuted, unix.ENOENT)
	failed    = syscall.WaitStatus(3 << 8)
)

// facts are those of a supervisor at whose terminal nothing has happened.
func facts() Facts {
	return Facts{
		Policy: Policy{ID: mutex, OnLoss: supervisor.Retry, Restart: supervisor.Never},
		HungUp: func() bool { return false }, HasGuard: true,
	}
}

func over(status syscall.WaitStatus) Command {
	return Command{Phase: Over, Status: status, ByItself: true}
}

func TestWhatFollowsTheDeathOfTheTree(t *testing.T) {
	type change = func(*Facts)
	all := func(changes ...change) []change { return changes }
	because := func(e Ending) change { return func(f *Facts) { f.Ending, f.Command.ByItself = e, false } }
	restart := func(r supervisor.Restart) change { return func(f *Facts) { f.Policy.Restart = r } }
	fallen := func(before int) change { return func(f *Facts) { f.GuardDeaths = before } }
	toldTERM := because(Ending{Reason: Told, Signal: unix.SIGTERM, Exit: exit{Status: 143}, Then: End})
	lostSlot := because(Ending{Reason: Lost, Exit: exit{Err: errTaken}})
	exits := func(f *Facts) { f.Policy.OnLoss = supervisor.NoRetry }
	tries := func(f *Facts) { f.Policy.Try = true }
	asked := because(Ending{Reason: Asked})
	hungUp := func(f *Facts) { f.HungUp = func() bool { return true } }
	hasRun := func(f *Facts) { f.Use = HasRun }
	guardFell := func(f *Facts) { f.Guard.Orphans, f.Use = true, Ordered }
	wished := func(f *Facts) { f.Command.AtTerminal = true }
	byItself := func(f *Facts) { f.Command.ByItself = true }

	failing, overran := because(Ending{Reason: Failing}), because(Ending{Reason: Overran})
	healthy := func(f *Facts) { f.Healthy = true }

	alive, beginning := Command{Phase: Alive}, Command{Phase: Beginning}
	noFile := Command{Phase: NotExecuted, Err: errNoFile}

	ended := func(status int) Ending { return Ending{Reason: Finished, Exit: exit{Status: status}, Then: End} }
	told := func(status int) Ending { return Ending{Reason: Told, Exit: exit{Status: status}, Then: End} }
	again := Ending{Then: StartAgain}
	queue := Ending{Reason: Lost, Exit: exit{Err: lock.ErrLost}, Then: Queue}
	lost := Ending{Reason: Lost, Exit: exit{Err: lock.ErrLost}, Then: End}
	unguarded := Ending{Reason: Unguarded, Exit: exit{Status: 126}, Then: End}
	stepsDown := func(status int, cause error, then Then) Ending {
		return Ending{Reason: Asked, Exit: exit{Status: status, Err: cause}, Then: then}
	}
	cut := func(reason Reason, cause error, then Then) Ending {
		e := Ending{Reason: reason, Exit: exit{Err: cause}, Then: then}
		if then == End {
			e.Exit.Status = supervisor.ExitCut
		}
		return e
	}
	notBegun := Ending{Reason: NotBegun, Exit: exit{Status: 127, Err: unix.ENOENT}, Then: End}

	for name, c := range map[string]struct {
		command Command
		facts   []change
		want    Ending
	}{
		"it has ended":                 {over(failed), nil, ended(3)},
		"it has ended well":            {over(0), all(restart(supervisor.OnFailure)), ended(0)},
		"it has failed":                {over(failed), all(restart(supervisor.OnFailure)), again},
		"it always starts again":       {over(0), all(restart(supervisor.Always)), again},
		"it was ended at the terminal": {over(failed), all(restart(supervisor.Always), wished), ended(3)},
		"it ended with the terminal":   {over(failed), all(restart(supervisor.Always), hungUp), ended(3)},
		"nothing is known of its end":  {alive, nil, ended(0)},
		"told":                         {over(15), all(toldTERM, restart(supervisor.Always)), told(143)},
		"told, and it has a status":    {over(failed), all(toldTERM), told(3)},
		"told before it had started":   {beginning, all(guardFell, toldTERM), told(143)},
		"told, nothing is known of it": {alive, all(toldTERM), told(143)},
		"told, and it could not start": {noFile, all(hasRun, toldTERM), notBegun},
		"lost":                         {over(15), all(lostSlot), queue},
		"lost, to be restarted":        {over(15), all(lostSlot, restart(supervisor.Always)), queue},
		"lost, --on-loss exit":         {over(15), all(lostSlot, exits), lost},
		"lost, --try":                  {over(15), all(lostSlot, tries), lost},
		"lost, and the terminal":       {over(15), all(lostSlot, hungUp), lost},
		"lost after it had ended":      {over(failed), all(lostSlot, byItself, exits), ended(3)},
		"lost after a failure": {over(failed), all(lostSlot, byItself, restart(supervisor.OnFailure)),
			queue},
		"asked":                            {over(15), all(hasRun, asked), stepsDown(143, nil, Queue)},
		"asked, --try":                     {over(15), all(hasRun, asked, tries), stepsDown(143, nil, End)},
		"asked after it had ended":         {over(failed), all(hasRun, asked, byItself), ended(3)},
		"asked before it had started":      {beginning, all(guardFell, asked), stepsDown(0, lock.ErrUnknown, Queue)},
		"asked before, --try":              {beginning, all(guardFell, asked, tries), stepsDown(0, lock.ErrUnknown, End)},
		"asked, and it could not start":    {noFile, all(asked, tries), stepsDown(127, unix.ENOENT, End)},
		"lost before it had started":       {beginning, all(guardFell, lostSlot), queue},
		"lost, and it could not start":     {noFile, all(lostSlot), notBegun},
		"lost, not started again":          {noFile, all(hasRun, lostSlot), queue},
		"it could not, and the guard fell": {noFile, all(guardFell), Ending{Then: NextGuard}},
		"it could not start":               {noFile, nil, notBegun},
		"it could not start again":         {noFile, all(hasRun), again},
		"not started again, hung up":       {noFile, all(hasRun, hungUp), notBegun},
		"the guard fell":                   {beginning, all(guardFell), Ending{Then: NextGuard}},
		"the third guard fell":             {beginning, all(guardFell, fallen(2)), Ending{Then: NextGuard}},
		"the fourth guard fell":            {beginning, all(guardFell, fallen(3)), unguarded},
		"unhealthy":                        {over(0), all(failing), cut(Failing, nil, Queue)},
		"unhealthy, --on-loss exit":        {over(0), all(failing, exits), cut(Failing, supervisor.ErrUnhealthy, End)},
		"unhealthy, --try":                 {over(0), all(failing, tries), cut(Failing, supervisor.ErrUnhealthy, End)},
		"unhealthy, and the terminal":      {over(0), all(failing, healthy, hungUp, restart(supervisor.Always)), cut(Failing, supervisor.ErrUnhealthy, End)},
		"unhealthy, ended at the terminal": {over(failed), all(failing, wished), ended(3)},
		"unhealthy, to be restarted":       {over(0), all(failing, healthy, exits, restart(supervisor.OnFailure)), again},
		"never healthy, to be restarted":   {over(0), all(failing, restart(supervisor.Always)), cut(Failing, nil, Queue)},
		"it ran too long":                  {over(0), all(overran), cut(Overran, supervisor.ErrOverran, End)},
		"it ran too long, to be restarted": {over(0), all(overran, restart(supervisor.OnFailure)), again},
	} {
		t.Run(name, func(t *testing.T) {
			f := facts()
			f.Command = c.command
			for _, change := range c.facts {
				change(&f)
			}
			got := afterDeath(f)
			if c.want.Exit.Err != nil && !errors.Is(got.Exit.Err, c.want.Exit.Err) {
				t.Errorf("cause %v, want %v", got.Exit.Err, c.want.Exit.Err)
			}
			got.Exit.Err, got.Signal, c.want.Exit.Err = nil, 0, nil
			if got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// Nothing has run then, whatever the hook has ended with: no status of its own may become berth's.
func TestWhatFollowsOnAcquire(t *testing.T) {
	asked, lost := Ending{Reason: Asked}, Ending{Reason: Lost, Exit: exit{Err: errTaken}}
	told := Ending{Reason: Told, Signal: unix.SIGTERM, Exit: exit{Status: 143}, Then: End}
	unguarded := Ending{Reason: Unguarded, Exit: exit{Status: 126}, Then: End}
	refused := func(then Then) Ending {
		return Ending{Reason: Refused, Exit: exit{Err: supervisor.ErrRefused}, Then: then}
	}
	noHook := Command{Phase: NotExecuted, Err: unix.ENOENT}
	for name, c := range map[string]struct {
		hook    Command
		because Ending
		try     bool
		want    Ending // Cause: what it wraps
	}{
		"it succeeds":             {over(0), Ending{}, true, Ending{Then: Proceed}},
		"it fails":                {over(failed), Ending{}, false, refused(Queue)},
		"it fails, --try":         {over(failed), Ending{}, true, refused(End)},
		"told":                    {over(15), told, true, told},
		"told, and it succeeds":   {over(0), told, true, told},
		"no guard":                {over(15), unguarded, true, unguarded},
		"asked":                   {over(15), asked, false, Ending{Reason: Asked, Exit: exit{Err: lock.ErrUnknown}, Then: Queue}},
		"asked, --try":            {over(15), asked, true, Ending{Reason: Asked, Exit: exit{Err: lock.ErrUnknown}, Then: End}},
		"asked, and it succeeds":  {over(0), asked, true, Ending{Reason: Asked, Exit: exit{Err: lock.ErrUnknown}, Then: End}},
		"asked, and it never ran": {noHook, asked, true, Ending{Reason: Asked, Exit: exit{Err: lock.ErrUnknown}, Then: End}},
		"lost":                    {over(15), lost, false, Ending{Reason: Lost, Exit: exit{Err: lock.ErrUnknown}, Then: Queue}},
		"lost, --try":             {over(15), lost, true, Ending{Reason: Lost, Exit: exit{Err: lock.ErrUnknown}, Then: End}},
	} {
		f := facts()
		f.Command, f.Ending, f.Policy.Try = c.hook, c.because, c.try
		f.Command.Hook = supervisor.OnAcquire
		got := afterDeath(f)
		if c.want.Exit.Err != nil && !errors.Is(got.Exit.Err, c.want.Exit.Err) {
			t.Errorf("%s: cause %v, want %v", name, got.Exit.Err, c.want.Exit.Err)
		}
		if got.Exit.Err, c.want.Exit.Err = nil, nil; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// What berth ends with is settled when these hooks run. Only a signal changes it, where berth would have gone on.
func TestHooksOfASlotsEndChangeNothing(t *testing.T) {
	finished, queue := Ending{Reason: Finished, Exit: exit{Status: 3}, Then: End}, Ending{Reason: Asked, Then: Queue}
	for hook, state := range map[supervisor.Hook]supervisor.State{
		supervisor.OnRelease: supervisor.Leaving, supervisor.OnLost: supervisor.Reporting,
	} {
		for _, before := range []Ending{finished, queue} {
			for _, on := range []Event{LossReported, LossDue, Overdue, Unverified, AskedToGo, ToldToEnd} {
				f := facts()
				f.Err, f.Signal, f.Ending, f.Use = errTaken, unix.SIGTERM, before, HasRun
				f.Command = over(failed)
				f.Command.Hook = hook
				f.Ending = why(state, on, f)
				got := why(state, TreeDied, f)
				if want := before; on == ToldToEnd && before == queue {
					if got.Reason != Told || got.Exit.Status != 143 || got.Then != End {
						t.Errorf("%s during %s: %+v", on, hook, got)
					}
				} else if got != want {
					t.Errorf("%s during %s: %+v, want %+v", on, hook, got, want)
				}
			}
		}
	}
}

func TestSlotWithoutACommandIsGivenUp(t *testing.T) {
	refused := lock.Errorf(lock.ErrDenied, "no permission")
	nothing := func(*Facts) {}
	hasRun := func(f *Facts) { f.Use = HasRun }
	exits := func(f *Facts) { f.Policy.OnLoss = supervisor.NoRetry }
	for name, c := range map[string]struct {
		on     Event
		err    error
		change func(*Facts)
		then   Then
		cause  error
	}{
		"a doubt before the first start": {NotReady, errDoubt, nothing, Queue, lock.ErrInDoubt},
		"a doubt before the second":      {NotReady, errDoubt, hasRun, Undecided, nil},
		"a loss before the first":        {NotReady, errTaken, exits, Queue, lock.ErrUnknown},
		"a loss before the second":       {NotReady, errTaken, hasRun, Queue, lock.ErrLost},
		"the same, --on-loss exit": {NotReady, errTaken, func(f *Facts) { hasRun(f); exits(f) }, End,
			lock.ErrLost},
		"a doubt with --try": {NotReady, errDoubt, func(f *Facts) { f.Policy.Try = true }, End,
			lock.ErrUnknown},
		"a refusal at first": {NotReady, refused, nothing, End, lock.ErrDenied},
		"a refusal later": {NotReady, refused, func(f *Facts) { f.Admitted = true }, Queue,
			lock.ErrDenied},
		"no proof of it in time":         {LossDue, ErrNotVerified, hasRun, Queue, lock.ErrLost},
		"what a cancelled call returned": {Unverified, errTaken, hasRun, Undecided, nil},
	} {
		f := facts()
		f.Err = c.err
		c.change(&f)
		if got := why(supervisor.Preparing, c.on, f); got.Then != c.then || !errors.Is(got.Exit.Err, c.cause) {
			t.Errorf("%s: %+v, want %q and %v", name, got, c.then, c.cause)
		}
	}
}

func TestFirstReasonToEndBerthCounts(t *testing.T) {
	f := facts()
	for _, step := range []struct {
		state supervisor.State
		on    Event
		f     Facts
		want  Reason
	}{
		{supervisor.Running, LossReported, Facts{Err: errDoubt}, ""},
		{supervisor.Running, LossReported, Facts{Err: errTaken}, Lost},
		{supervisor.Losing, ToldToEnd, Facts{Signal: unix.SIGINT}, Told},
		{supervisor.Losing, ToldToEnd, Facts{Signal: unix.SIGTERM}, Told},
		{supervisor.Releasing, TimedOut, Facts{}, Told},
	} {
		f.Err, f.Signal = step.f.Err, step.f.Signal
		if f.Ending = why(step.state, step.on, f); f.Ending.Reason != step.want {
			t.Errorf("%s in %q: %+v, want %q", step.on, step.state, f.Ending, step.want)
		}
	}
	if f.Ending.Signal != unix.SIGINT || f.Ending.Exit.Status != 130 {
		t.Errorf("%+v, want the first signal", f.Ending)
	}
}

// What a health check or a limit has begun is no reason to refuse, or to survive, what comes next.
func TestWhatComesAfterACutTakesItsPlace(t *testing.T) {
	for _, cut := range []Reason{Failing, Overran} {
		for on, want := range map[Event]Reason{ToldToEnd: Told, Agreed: Asked, LossReported: Lost, LossDue: Lost, Exited: cut} {
			f := facts()
			f.Policy.Restart, f.Healthy, f.Use = supervisor.Always, true, HasRun
			f.Ending, f.Err, f.Signal = Ending{Reason: cut}, errTaken, unix.SIGTERM
			if got := why(supervisor.Stopping, on, f); got.Reason != want {
				t.Errorf("%s after %q: %+v", on, cut, got)
			}
		}
	}
}

func TestTimeThatIsOverInASlotSaysWhatWasInTheWay(t *testing.T) {
	got := why(supervisor.Preparing, TimedOut, Facts{}).Exit.Err
	if !errors.Is(got, lock.ErrUnknown) || !strings.Contains(got.Error(), "last holder's command") {
		t.Error(got)
	}
}

// An event that can come in a state has an effect there whatever the facts are.
func TestEveryEventOfAStateHasARowThatHolds(t *testing.T) {
	for _, s := range supervisor.States() {
		certain := map[Event]bool{}
		for _, row := range table[s] {
			certain[row.On] = certain[row.On] || row.If.test == nil
		}
		for on, yes := range certain {
			if !yes {
				t.Errorf("%q in %q depends on conditions only", on, s)
			}
		}
	}
}

func TestEveryStateCanBeReachedAndLeft(t *testing.T) {
	reached := map[supervisor.State]bool{supervisor.Connecting: true}
	for _, s := range supervisor.States() {
		left := false
		for _, row := range listed(s) {
			left = left || row.To != stays && row.To != s
			reached[row.To] = true
		}
		if !left && s != supervisor.Ended {
			t.Errorf("%q cannot be left", s)
		}
	}
	for _, s := range supervisor.States() {
		if !reached[s] {
			t.Errorf("%q cannot be reached", s)
		}
	}
}

func TestEventWithoutARowChangesNothing(t *testing.T) {
	f := facts()
	f.Err = errTaken
	if row, found := Next(supervisor.Running, NotConnected, &f); found || f.Ending != (Ending{}) {
		t.Errorf("%+v, %+v", row, f.Ending)
	}
}

func TestDiagramIsWhatTheTableSays(t *testing.T) {
	for name, want := range map[string]string{"states.md": Diagram(), "states.tsv": Table()} {
		text, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != want {
			t.Errorf("docs/%s is not what the table says; run make docs", name)
		}
	}
}

func TestWhatFollowsAHook(t *testing.T) {
	told := Ending{Reason: Told, Exit: exit{Status: 143}, Then: End}
	finished := Ending{Reason: Finished, Exit: exit{Status: 3}, Then: End}
	lost := Ending{Reason: Lost, Exit: exit{Err: errTaken}}
	for name, c := range map[string]struct {
		hook   supervisor.Hook
		change func(*Facts)
		want   Ending
	}{
		"it has no objection": {supervisor.OnAcquire, func(*Facts) {}, Ending{Then: Proceed}},
		"it refuses": {supervisor.OnAcquire, func(f *Facts) { f.Command.Status = failed },
			Ending{Reason: Refused, Then: Queue}},
		"it refuses, --try": {supervisor.OnAcquire, func(f *Facts) { f.Command.Status, f.Policy.Try = failed, true },
			Ending{Reason: Refused, Then: End}},
		"it takes too long": {supervisor.OnAcquire, func(f *Facts) { f.Command.Overtime = true },
			Ending{Reason: Refused, Then: Queue}},
		"its guard falls": {supervisor.OnAcquire, func(f *Facts) { f.Command.Phase = Beginning },
			Ending{Reason: Refused, Then: Queue}},
		"berth is told to end": {supervisor.OnAcquire, func(f *Facts) { f.Ending = told }, told},
		"it is to step down": {supervisor.OnAcquire, func(f *Facts) { f.Ending = Ending{Reason: Asked} },
			Ending{Reason: Asked, Then: Queue}},
		"the slot is lost before anything ran": {supervisor.OnAcquire, func(f *Facts) {
			f.Ending, f.Policy.OnLoss = lost, supervisor.NoRetry
		}, Ending{Reason: Lost, Then: Queue}},
		"the slot is lost, and it had succeeded": {supervisor.OnAcquire, func(f *Facts) {
			f.Ending, f.Policy.OnLoss, f.Use = lost, supervisor.NoRetry, Ordered
		}, Ending{Reason: Lost, Then: End}},
		"at the end, it fails": {supervisor.OnRelease, func(f *Facts) { f.Ending, f.Command.Status = finished, failed },
			finished},
		"after a loss, it fails": {supervisor.OnLost, func(f *Facts) { f.Ending, f.Command.Status = lost, failed }, lost},
	} {
		f := facts()
		f.Command = over(0)
		f.Command.Hook = c.hook
		c.change(&f)
		got := afterDeath(f)
		got.Exit.Err, c.want.Exit.Err = nil, nil
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
