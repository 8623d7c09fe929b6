package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/boottime"
	"berth/lock"
	"berth/signals"
)

// startAttempts bounds how often a guard that died before it could start the
// command is replaced.
const startAttempts = 3

// start tells the guard to start the command.
func (m *machine) start(e event) State {
	m.timeout.Stop()
	m.proven, m.used, m.doubtful = true, true, false
	if m.lostC == nil {
		m.lostC = m.held.Lost() // of a doubt that is over, or that has to be looked at
	}
	m.setDeadline(e.since)
	if m.guard == nil {
		switch err := m.launch(); {
		case err != nil && m.ran: // it could be restarted, and will be
			m.scheduleVerify(e.since)
			return m.takeRest()
		case err != nil:
			m.outcome = Outcome{Status: cannotExecute, Err: err}
			return m.release(Ended)
		}
	}
	m.command.running, m.command.suspended, m.command.wished = true, false, false
	m.command.pid = 0
	m.command.status = 0
	m.command.ended, m.command.finished = false, false
	m.command.frozen = false
	m.command.began = time.Now()
	m.steps, m.killing, m.killAt = nil, false, time.Time{}
	m.log = m.cfg.Log.With("slot", m.held.Slot())
	if term := m.held.Term(); term != 0 {
		m.log = m.log.With("term", term)
	}
	handover := m.held.Handover()
	_ = m.guard.Start(Start{Vars: m.vars(), Files: handover.Files, Will: handover.Will, Deadline: m.deadline})
	m.silence.Reset(guardPatience)
	m.scheduleVerify(e.since)
	return Starting
}

// vars is what the command is told about its slot.
func (m *machine) vars() []string {
	vars := []string{
		"BERTH_NAME=" + m.cfg.ID.Name,
		"BERTH_KIND=" + string(m.cfg.ID.Kind),
		"BERTH_SLOT=" + strconv.Itoa(m.held.Slot()),
		"BERTH_HOLDER=" + m.cfg.Holder,
	}
	if term := m.held.Term(); term != 0 {
		vars = append(vars, "BERTH_TERM="+strconv.FormatUint(term, 10))
	}
	return vars
}

// noteAccepted is for a guard that has begun to start the command. That may
// take long; what ends it is a loss or a signal.
func (m *machine) noteAccepted(event) State {
	m.guarded = true
	if !m.killing {
		m.silence.Stop()
	}
	return m.state
}

// noteUnusable is for a guard that cannot work here. Unless another one could
// before, none ever will, and there is nothing to wait for.
func (m *machine) noteUnusable(e event) State {
	if m.guarded {
		m.log.Error("no guard for the next start yet", "error", e.err)
		return m.state
	}
	m.unusable = e.err
	unstarted := Outcome{Status: cannotExecute, Err: e.err}
	switch m.state {
	case Starting: // what was to be started is buried
		return m.state
	case Preparing, Resting:
		m.outcome = unstarted
		return m.release(Ended)
	case Releasing:
		if m.after != Ended {
			m.outcome, m.after = unstarted, Ended
		}
		return m.state
	}
	m.outcome = unstarted
	return m.cancelCall()
}

// noteStarted goes on to what has happened while the command was being started.
func (m *machine) noteStarted(e event) State {
	m.silence.Stop()
	m.launches, m.ran = 0, true
	if e.guard.Pid != 0 {
		m.command.pid = e.guard.Pid
		m.log = m.log.With("pid", e.guard.Pid)
	}
	m.log.Info("slot held, command started")
	next := Running
	if m.lossCause != nil {
		next = m.lose(event{err: m.lossCause})
	}
	kept := m.command.kept
	m.command.kept = nil
	for _, k := range kept {
		switch {
		case !k.ends:
			m.hand(k.sig)
		case next == Running:
			m.beginSequence(m.cfg.Stop.Beginning(k.sig))
			next = Stopping
		default:
			_ = m.guard.Signal(k.sig, Tree)
		}
	}
	if next == Running && m.doubtful {
		return m.enterDoubt()
	}
	return next
}

func (m *machine) noteNotStarted(e event) State {
	m.silence.Stop()
	m.startErr = fmt.Errorf("%w: %w", ErrNotExecuted, e.guard.Errno)
	return m.state
}

// keptSignal is one that came while the command was being started.
type keptSignal struct {
	sig  syscall.Signal // as rewritten
	ends bool           // it ends berth
}

// keepSignal keeps a signal for a command that is just being started.
func (m *machine) keepSignal(e event) State {
	m.log.Debug("signal kept until the command has been started", "signal", signals.Name(e.sig))
	m.command.kept = append(m.command.kept, keptSignal{sig: e.hand})
	return m.state
}

// forward hands a signal to the command: to its first process, which is what it
// would reach without berth, and to the whole group where a terminal would.
func (m *machine) forward(e event) State {
	m.hand(e.hand)
	return m.state
}

func (m *machine) hand(sig syscall.Signal) {
	if m.command.suspended && (sig == unix.SIGTSTP || sig == unix.SIGCONT) {
		m.log.Info("command continued")
		m.command.suspended = false
		sig = unix.SIGCONT
	}
	to := First
	if signals.JobControl(sig) {
		to = Group
	}
	m.log.Debug("signal forwarded", "signal", signals.Name(sig))
	_ = m.guard.Signal(sig, to)
}

// noteSuspended is for Ctrl-Z. berth itself does not stop: it would miss its
// verifications. So the shell goes on waiting for it, and the user is told how
// to go on. A command that waits for the terminal is told of too, and goes on
// once it gets it.
func (m *machine) noteSuspended(e event) State {
	if e.guard.Terminal {
		m.log.Warn("command stopped until it has the terminal, the slot is still held; bring berth to the foreground, or end it; " +
			"with --pid-namespace the command cannot have the terminal")
		return m.state
	}
	m.command.suspended = true
	m.log.Warn("command suspended, the slot is still held; press Ctrl-Z again to continue it, Ctrl-C to end it")
	return m.state
}

// verify begins a verification, unless one is under way.
func (m *machine) verify(event) State {
	if m.call != nil {
		return m.state
	}
	held, limit := m.held, m.verifyLimit()
	m.begin(func(ctx context.Context) event {
		since, err := verifyWithin(ctx, held, limit)
		if err != nil {
			return event{on: unverified, err: err}
		}
		return event{on: verified, since: since}
	})
	m.verifyAt = time.Now().Add(m.cfg.VerifyInterval)
	return m.state
}

// scheduleVerify sets the timer for the first verification after since.
func (m *machine) scheduleVerify(since boottime.Instant) {
	m.verifyAt = time.Now().Add(since.Add(m.cfg.VerifyInterval).Until())
	m.verifyTimer.Reset(pauseBefore(m.verifyAt))
}

// renew counts the deadline from the start of a verification that succeeded.
func (m *machine) renew(e event) State {
	m.doubtful = false
	m.setDeadline(e.since)
	if m.lostC == nil {
		m.lostC = m.held.Lost()
	}
	m.verifyTimer.Reset(pauseBefore(m.verifyAt))
	if m.command.running && m.deadline != 0 {
		if err := m.guard.Renew(m.deadline); err != nil {
			m.log.Error("the guard does not answer; killing it and the command", "error", err)
			m.guard.Abandon()
		}
	}
	if m.state == InDoubt {
		m.log.Info("slot verified again")
		m.thaw()
		return Running
	}
	return m.state
}

// setDeadline sets when the tree has to be dead, counted from since.
func (m *machine) setDeadline(since boottime.Instant) {
	m.deadline = 0
	if lease := m.held.Lease(); lease > 0 {
		m.deadline = since.Add(lease - m.cfg.Margin)
	}
	if err := m.lossTimer.Set(m.lossAt()); err != nil {
		m.log.Error("cannot set the timer of the loss sequence", "error", err)
	}
}

// lossAt is when the loss sequence has to begin to end before the deadline.
func (m *machine) lossAt() boottime.Instant {
	if m.deadline == 0 {
		return 0
	}
	return m.deadline.Add(-m.cfg.Loss.Duration())
}

// doubt is for a verification that did not succeed: proof of a loss, or nothing
// known.
func (m *machine) doubt(e event) State {
	if errors.Is(e.err, lock.ErrLost) {
		return m.lose(e)
	}
	m.verifyTimer.Reset(pauseBefore(m.verifyAt))
	m.doubtful = true
	if m.state == Running {
		m.log.Warn("verification failed, the slot is in doubt", "error", e.err, "loss_sequence_in", m.lossIn())
		return m.enterDoubt()
	}
	return m.state
}

// enterDoubt is for a command that runs in a slot of which nothing is known.
func (m *machine) enterDoubt() State {
	if m.cfg.OnDoubt == Freeze && !m.command.frozen {
		m.log.Warn("command frozen until the slot is verified again")
		m.command.frozen = true
		_ = m.guard.Freeze()
	}
	return InDoubt
}

// thaw lets a frozen command go on.
func (m *machine) thaw() {
	if m.command.frozen {
		m.log.Info("command goes on")
		m.command.frozen = false
		_ = m.guard.Thaw()
	}
}

// lossIn is how long the command may go on without a verification, for people.
func (m *machine) lossIn() string {
	if m.deadline == 0 {
		return "never"
	}
	return m.lossAt().Until().Round(100 * time.Millisecond).String()
}

// noteLost is for a backend that learned of a loss by itself. Without proof the
// slot is in doubt, and looked at now.
func (m *machine) noteLost(e event) State {
	if errors.Is(e.err, lock.ErrLost) {
		return m.lose(e)
	}
	m.log.Warn("the slot is in doubt", "error", e.err)
	m.verifyAt = time.Now() // also if one is under way
	m.verifyTimer.Reset(0)
	m.doubtful = true
	if m.state == Running {
		return m.enterDoubt()
	}
	return m.state
}

// noteLostStart is noteLost while the command is being started.
func (m *machine) noteLostStart(e event) State {
	if errors.Is(e.err, lock.ErrLost) {
		return m.loseStart(e)
	}
	return m.noteLost(e)
}

// noteExit is for the end of the command's first process. What it leaves behind
// is ended in order before the slot is given back.
func (m *machine) noteExit(e event) State {
	if m.state == Starting && e.guard.Orphans {
		return m.state // nothing was started, as far as is known: bury says it
	}
	m.command.status, m.command.ended = e.guard.Status, true
	m.command.finished = m.lossCause == nil && m.stopSig == 0
	m.command.wished = e.guard.Terminal && interrupted(e.guard.Status)
	if e.guard.Orphans {
		m.log.Error("the guard was killed, and the command with it")
	}
	m.log.Info("command ended", "status", exitStatus(e.guard.Status))
	if !e.guard.Left || m.state == Stopping || m.state == Losing {
		return m.state
	}
	m.log.Info("ending what the command has left running")
	m.beginSequence(m.cfg.Stop)
	return Stopping
}
