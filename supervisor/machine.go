package supervisor

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/hashicorp/go-hclog"

	"berth/internal/boottime"
	"berth/lock"
	"berth/signals"
)

const (
	// releaseTimeout bounds giving the slot back. What is not confirmed by
	// then is freed by closing what held it.
	releaseTimeout = 5 * time.Second
)

// guardPatience is how long a guard may take to answer. Beginning to start and to
// kill takes milliseconds; a guard that is stopped would take for ever. Tests
// shorten it.
var guardPatience = 2 * time.Second

// hangupPatience is how much later than HUP its terminal may go. One that is
// there for longer was not what HUP was about: it told the command to reload.
const hangupPatience = time.Second

// callPatience is how long a lock's method may go on after it was cancelled. It
// is promised to return promptly; a backend that breaks the promise must not keep
// berth from ending. Tests shorten it.
var callPatience = 10 * time.Second

// event is something that happened, with what belongs to it.
type event struct {
	on    trigger
	err   error
	held  lock.Held
	since boottime.Instant // when the verification that succeeded began
	guard GuardEvent
	sig   syscall.Signal // as received
	hand  syscall.Signal // as rewritten
}

// machine is one run. Everything in it belongs to the goroutine in run.
type machine struct {
	cfg    Config
	log    hclog.Logger // with what is held now
	state  State
	cancel context.CancelFunc
	ctx    context.Context // of all calls

	call    context.CancelFunc        // the lock's method under way, nil: none
	next    func(ctx context.Context) // begins when that one has returned
	results chan event

	reconnect, poll, rest *backoff.ExponentialBackOff
	proven                bool   // the broker has let us in and answered an attempt
	lastErr               error  // why there is no slot yet
	said                  string // what the user was last told about waiting

	guard       Guard
	guardEvents <-chan GuardEvent
	launches    int   // of guards that died before they could start the command
	guarded     bool  // one could
	unusable    error // why none can

	held     lock.Held
	lostC    <-chan struct{}
	used     bool             // the command was to be started in this slot
	ran      bool             // and was, once at least
	deadline boottime.Instant // 0: none
	verifyAt time.Time        // when the next verification begins
	doubtful bool             // since the last verification that succeeded, something spoke against the slot

	command struct {
		running   bool // the guard may have something running
		pid       int  // of its first process, 0: not known
		began     time.Time
		status    syscall.WaitStatus
		ended     bool // the guard has told the status
		finished  bool // it ended by itself, the slot being ours
		suspended bool
		kept      []keptSignal // that came before it had started, in order
		wished    bool         // its end was wished for at the terminal
		frozen    bool         // the guard was told to freeze it
	}
	steps   signals.Sequence // what is left of the sequence under way
	killAt  time.Time        // when that one comes to KILL
	killing bool

	hup       bool           // HUP was received, and may tell of the terminal's end
	stopSig   syscall.Signal // the first ending signal
	lossCause error
	startErr  error
	outcome   Outcome
	after     State // Releasing

	verifyTimer, pauseTimer, stepTimer, timeout *time.Timer
	silence                                     *time.Timer // the guard's
	hangup                                      *time.Timer // since HUP was received
	overtime                                    *time.Timer // of the last call before the end, or before another slot
	lossTimer                                   *boottime.Timer
	beat                                        *time.Ticker // nil: nobody wants one

	observed Situation // what the observer was told last
}

func newMachine(cfg Config) (*machine, error) {
	lossTimer, err := boottime.NewTimer()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &machine{
		cfg: cfg, log: cfg.Log, ctx: ctx, cancel: cancel,
		results:   make(chan event, 1),
		reconnect: newBackOff(100*time.Millisecond, 5*time.Second),
		poll:      newBackOff(50*time.Millisecond, 500*time.Millisecond),
		rest:      newBackOff(100*time.Millisecond, 10*time.Second),
		lossTimer: lossTimer,
	}
	for _, timer := range []**time.Timer{&m.verifyTimer, &m.pauseTimer, &m.stepTimer, &m.silence, &m.overtime, &m.timeout, &m.hangup} {
		*timer = time.NewTimer(0)
		(*timer).Stop() // since Go 1.23 nothing is left in the channel
	}
	if cfg.Observer != nil && cfg.Beat > 0 {
		m.beat = time.NewTicker(cfg.Beat)
	}
	return m, nil
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
func (m *machine) run() Outcome {
	outcome := m.work()
	m.close()
	return outcome
}

func (m *machine) work() Outcome {
	m.restartTimeout()
	m.state = m.connect(event{})
	m.observe()
	runtime.Gosched() // the backend answers while a guard is made
	if err := m.launch(); err != nil {
		m.state = Ended
		m.observe()
		return Outcome{Status: cannotExecute, Err: err}
	}
	for m.state != Ended {
		if e := m.receive(); e.on != "" {
			m.handle(e)
		}
		m.observe()
	}
	return m.outcome
}

// handle does what the table says.
func (m *machine) handle(e event) {
	t, found := table[m.state][e.on]
	if !found {
		m.log.Debug("nothing to do for it", "event", string(e.on), "state", string(m.state), "error", e.err)
		return
	}
	next := t.do(m, e)
	if next != m.state && !slices.Contains(t.to, next) {
		unlisted(m.log, e.on, m.state, next)
	}
	if next != m.state {
		m.log.Trace("state", "from", string(m.state), "to", string(next), "event", string(e.on))
	}
	m.state = next
}

// unlisted is for a transition that the table does not have, which is a mistake in
// this package; tests fail for it. What belongs to the next state has been done
// already, and the command may be alive, so the machine goes on there: to stay
// would leave it in a state that is no longer true. Tests replace it.
var unlisted = logUnlisted

func logUnlisted(log hclog.Logger, on trigger, from, to State) {
	log.Error("a transition that the table of states does not have; please report it", "event", string(on), "from", string(from), "to", string(to))
}

// receive waits for the next event; one without a trigger is none.
func (m *machine) receive() event {
	// What the guard has told comes first: a command that has ended by itself was
	// not ended by a loss that became known later.
	select {
	case g, open := <-m.guardEvents:
		return m.told(g, open)
	default:
	}
	select {
	case e := <-m.results:
		m.call()
		m.call = nil
		if begin := m.next; begin != nil {
			m.next = nil
			begin(m.ctx)
		}
		return e
	case sig := <-m.cfg.Signals:
		return m.signalEvent(sig)
	case g, open := <-m.guardEvents:
		return m.told(g, open)
	case <-m.lostC:
		m.lostC = nil
		return event{on: lost, err: m.held.Cause()}
	case <-m.lossTimer.C:
		if m.lossAt().Passed() {
			return event{on: lossDue}
		}
		return event{}
	case <-m.verifyTimer.C:
		return event{on: verifyTime}
	case <-m.pauseTimer.C:
		return event{on: pauseOver}
	case <-m.stepTimer.C:
		return event{on: stepDue}
	case <-m.silence.C:
		return event{on: silent}
	case <-m.overtime.C:
		return event{on: stuck}
	case <-m.timeout.C:
		return event{on: timedOut}
	case <-m.hangup.C:
		m.hup = m.hungUp()
		return event{}
	case <-m.beats():
		m.cfg.Observer.Beat()
		return event{}
	}
}

// beats tells when the observer is to be told that this goroutine is there.
func (m *machine) beats() <-chan time.Time {
	if m.beat == nil {
		return nil
	}
	return m.beat.C
}

// told is for what the guard tells, or for its end.
func (m *machine) told(g GuardEvent, open bool) event {
	if !open && m.command.running { // it had died before it got the order to start
		return guardEvent(GuardEvent{Kind: Dead, Orphans: true})
	}
	if !open {
		m.guard, m.guardEvents = nil, nil
		return event{}
	}
	switch g.Kind {
	case Halted:
		m.log.Warn("somebody stopped the guard; it goes on, because it keeps the command's deadline")
		return event{}
	case Loosened:
		m.log.Warn("the command has changed its user, and would outlive berth and its guard if both were killed in the same instant; " +
			"start it with --user instead, or with --pid-namespace, or have berth in a control group that is killed as a whole")
		return event{}
	}
	return guardEvent(g)
}

func guardEvent(g GuardEvent) event {
	on := map[GuardEventKind]trigger{
		Unusable: unusable, Accepted: accepted, Started: started, NotStarted: notStarted, Suspended: suspended,
		Exited: exited, Refused: refused, Killing: killing, Overdue: overdue, Dead: dead,
	}[g.Kind]
	return event{on: on, guard: g, err: g.Err}
}

// signalEvent judges a signal: it ends berth, or it is for the command.
func (m *machine) signalEvent(s os.Signal) event {
	sig, ok := s.(syscall.Signal)
	if !ok {
		return event{}
	}
	hand := m.cfg.Rewrites.Apply(sig)
	if hand == 0 {
		m.log.Debug("signal dropped, as --rewrite says", "signal", signals.Name(sig))
		return event{}
	}
	on := forwarded
	hungUp := false
	if sig == syscall.SIGHUP && m.cfg.Terminal != nil {
		m.hup = true
		m.hangup.Reset(hangupPatience)
		hungUp = !m.command.running || m.hungUp()
	}
	if signals.Ends(sig) || signals.Ends(hand) || hungUp {
		on = ending
	}
	return event{on: on, sig: sig, hand: hand}
}

// hungUp reports whether berth was told that its terminal has gone, and it has.
// The kernel can tell a moment before; and a shell that exits may leave a job
// alone, to which the terminal's end means nothing.
func (m *machine) hungUp() bool { return m.hup && !m.cfg.Terminal() }

// begin has f run beside the machine; what it returns becomes the next event.
// One call is under way at a time: another is cancelled first, and its result
// handled before f begins.
func (m *machine) begin(f func(ctx context.Context) event) {
	start := func(ctx context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		m.call = cancel
		go func() { m.results <- f(ctx) }()
	}
	if m.call == nil {
		start(m.ctx)
		return
	}
	m.call()
	m.next = start
}

// launch has a guard ready for the next start of the command.
func (m *machine) launch() error {
	guard, err := m.cfg.Launch()
	if err != nil {
		return err
	}
	m.guard, m.guardEvents = guard, guard.Events()
	return nil
}

// close gives up what is left when the machine has ended.
func (m *machine) close() {
	if m.beat != nil {
		m.beat.Stop()
	}
	m.cancel()
	if m.guard != nil && !m.command.running {
		m.guard.Retire()
	}
	if m.call != nil {
		select {
		case e := <-m.results:
			m.call()
			if e.held != nil {
				ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
				_ = e.held.Release(ctx)
				cancel()
			}
		case <-time.After(callPatience):
			m.log.Error("a call to the backend did not return", "lock", m.cfg.ID.Name)
		}
	}
	if err := m.cfg.Lock.Close(); err != nil && !errors.Is(err, lock.ErrUnreachable) {
		m.log.Debug("closing the lock", "error", err)
	}
	m.lossTimer.Close()
}
