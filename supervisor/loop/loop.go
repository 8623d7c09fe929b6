// Package loop runs a supervisor: it obtains the slot, has the command started, proves on a timer that the slot is
// still held, ends the command when it is not or when the user says so, and gives the slot back once the command's tree
// is dead. [Run] is all of it; package [supervisor] has an example.
//
// One goroutine owns everything. It notes what happens (events.go), asks package [machine] what to do about it, and
// does that (actions.go). Which state follows, and what becomes of command, slot and berth, is for the machine alone.
// Everything slow runs beside it and comes back as an event: each call of a [lock.Lock] or [lock.Held] (package
// [calls]), and health checks (package [checks]). Answers to requests leave beside it, too (package [answers]).
//
// What it guarantees: the command runs only between a verification that succeeded and that verification's deadline;
// [lock.Held.Release] comes after [wire.Dead], on every path; an ending signal is never lost, whenever it
// arrives.
package loop

import (
	"errors"
	"runtime"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/hashicorp/go-hclog"

	"berth/internal/boottime"
	"berth/internal/guard/wire"
	"berth/lock"
	"berth/supervisor"
	"berth/supervisor/answers"
	"berth/supervisor/calls"
	"berth/supervisor/checks"
	"berth/supervisor/machine"
)

// env is what tests replace.
type env struct {
	// callPatience is how long a lock's method may go on after it was cancelled. It
	// is promised to return promptly; a backend that breaks the promise must not
	// keep berth from ending.
	callPatience time.Duration

	// unlisted is for an event that the table does not have, which is a mistake
	// there: it is dropped.
	unlisted func(log hclog.Logger, state supervisor.State, on machine.Event)
}

var normal = env{
	callPatience: 10 * time.Second,
	unlisted: func(log hclog.Logger, state supervisor.State, on machine.Event) {
		log.Debug("nothing to do for it", "event", string(on), "state", string(state))
	},
}

// Run runs the command under the lock until it has ended for good.
func Run(cfg supervisor.Config) supervisor.Exit { return run(cfg, normal) }

func run(cfg supervisor.Config, e env) supervisor.Exit {
	l, err := newLoop(cfg, e)
	if err != nil {
		return supervisor.Exit{Status: supervisor.ExitCannotExecute, Err: err}
	}
	return l.run()
}

// loop is one run. Everything in it belongs to the goroutine in run.
type loop struct {
	cfg     supervisor.Config
	env     env
	log     hclog.Logger // with what is held now
	state   supervisor.State
	facts   machine.Facts
	follows event // what the action under way results in, if its on is not ""
	calls   *calls.Calls
	answers *answers.Answers

	reloading bool          // the configuration is being read again
	reloads   chan reloaded // has room for the one
	takeover  takeover
	tally     supervisor.Tally
	timers

	reconnect, poll, rest *backoff.ExponentialBackOff
	refusals              *backoff.ExponentialBackOff
	said                  string // what the user was last told about waiting
	hup                   bool   // HUP was received, and may tell of the terminal's end

	guard       supervisor.Guard // nil: none
	guardEvents <-chan wire.Event

	held        lock.Held        // nil: none
	lostC       <-chan struct{}  // nil: nothing more is to be heard for now
	deadline    boottime.Instant // 0: none
	since       time.Time        // when it was won, or the wait for one began
	waitsSince  time.Time        // when the wait for one began that --timeout limits
	verified    boottime.Instant // when the last proof that it is held began; 0: there is none
	successorOf int              // the slot whose successor this berth is, 0: none
	verifyAt    time.Time        // when the next verification begins
	began       time.Time        // the verification under way

	command  command
	hooks    hooks
	health   health
	sequence sequence

	observed supervisor.Situation // what the observer was told last
}

// timers are what the loop waits for besides others.
type timers struct {
	verifyTimer, pauseTimer, stepTimer *time.Timer

	timeout   *time.Timer     // of waiting for a slot
	hookTime  *time.Timer     // of the hook that runs
	hangup    *time.Timer     // since HUP was received
	runTime   *time.Timer     // --max-run of the command
	overtime  *time.Timer     // of the last call before the end, or before another slot
	lossTimer *boottime.Timer // goes on through a suspend
	beat      *time.Ticker    // nil: nobody wants one
}

func newTimers(clock boottime.Clock) (timers, error) {
	lossTimer, err := clock.NewTimer()
	return timers{
		verifyTimer: stopped(), pauseTimer: stopped(), stepTimer: stopped(), timeout: stopped(),
		hookTime: stopped(), hangup: stopped(), runTime: stopped(), overtime: stopped(), lossTimer: lossTimer,
	}, err
}

// stopped returns a timer that does not run. Since Go 1.23 nothing is left in its channel.
func stopped() *time.Timer {
	timer := time.NewTimer(0)
	timer.Stop()
	return timer
}

func newLoop(cfg supervisor.Config, e env) (*loop, error) {
	timers, err := newTimers(cfg.Clock)
	if err != nil {
		return nil, err
	}
	l := &loop{
		cfg: cfg, env: e, log: cfg.Log, timers: timers,
		calls:     calls.New(cfg.Lock, cfg.VerifyTimeout, cfg.Clock),
		answers:   answers.New(),
		reloads:   make(chan reloaded, 1),
		tally:     tally(cfg),
		reconnect: newBackOff(100*time.Millisecond, 5*time.Second),
		poll:      newBackOff(50*time.Millisecond, 500*time.Millisecond),
		rest:      newBackOff(100*time.Millisecond, 10*time.Second),
		refusals:  newBackOff(time.Second, 30*time.Second),
	}
	l.facts.HungUp = l.hungUp
	l.facts.Policy = machine.Policy{
		ID: cfg.ID, Try: cfg.Try, Timeout: cfg.Timeout, OnLoss: cfg.OnLoss, Restart: cfg.Restart, MaxRun: cfg.MaxRun,
		Freeze: cfg.OnDoubt == supervisor.Freeze,
	}
	l.health = health{checks: checks.New(cfg.Health.Check), due: stopped()}
	l.facts.Unfit = cfg.Health.WhileWaiting
	l.noteHooks()
	if cfg.Observer != nil && cfg.Beat > 0 {
		l.beat = time.NewTicker(cfg.Beat)
	}
	return l, nil
}

// newBackOff returns pauses that double from first to most on average, each
// drawn evenly from zero to twice that (full jitter), without end.
func newBackOff(first, most time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(first),
		backoff.WithMaxInterval(most),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(1),
		backoff.WithMaxElapsedTime(0),
	)
}

// run goes from event to event until there is nothing left to do. A panic must
// not come to close, which gives the slot up: the command may live then, and
// only the end of this process has the guard kill it.
func (l *loop) run() supervisor.Exit {
	exit := l.work()
	l.close()
	return exit
}

func (l *loop) work() supervisor.Exit {
	l.restartTimeout()
	l.calls.Connect()
	l.state = supervisor.Connecting
	l.tend()
	l.observe()
	runtime.Gosched() // the backend answers while a guard is launched
	if err := l.launch(); err != nil {
		l.handle(event{on: machine.NoGuard, err: err})
		l.observe()
	}
	for l.state != supervisor.Ended {
		l.handle(l.receive())
		l.tend()
		l.observe()
	}
	return l.facts.Ending.Exit
}

// launch has a guard ready for the next start of the command.
func (l *loop) launch() error {
	guard, err := l.cfg.Launch()
	if err != nil {
		return err
	}
	l.guard, l.guardEvents = guard, guard.Events()
	return nil
}

// close gives up what is left when the machine has ended.
func (l *loop) close() {
	if l.beat != nil {
		l.beat.Stop()
	}
	if l.guard != nil && l.facts.Command.Phase == machine.Absent {
		l.guard.Retire()
	}
	l.takeover.close(l.env.callPatience)
	l.closeHealth(l.env.callPatience)
	l.answers.Close()
	if !l.calls.Close(l.env.callPatience) {
		l.log.Error("a call to the broker or file system did not return")
	}
	if err := l.cfg.Lock.Close(); err != nil && !errors.Is(err, lock.ErrUnreachable) {
		l.log.Debug("closing the lock", "error", err)
	}
	l.lossTimer.Close()
}
