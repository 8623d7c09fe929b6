package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"berth/lock"
	"berth/signals"
)

// stop begins the stop sequence with the signal that came. One that comes again
// is handed on.
func (m *machine) stop(e event) State {
	m.noteStop(e)
	if m.state == Stopping {
		_ = m.guard.Signal(e.hand, Tree)
		return Stopping
	}
	m.beginSequence(m.cfg.Stop.Beginning(e.hand))
	return Stopping
}

// stopLosing hands an ending signal on while the loss sequence is under way, and
// has the command killed no later than the stop sequence would.
func (m *machine) stopLosing(e event) State {
	m.noteStop(e)
	if !m.killing && time.Until(m.killAt) > m.cfg.Stop.Duration() {
		m.beginSequence(m.cfg.Stop.Beginning(e.hand))
	} else {
		_ = m.guard.Signal(e.hand, Tree)
	}
	return Losing
}

// stopStart keeps an ending signal until the command has been started.
func (m *machine) stopStart(e event) State {
	m.noteStop(e)
	m.command.kept = append(m.command.kept, keptSignal{sig: e.hand, ends: true})
	m.boundStart(m.cfg.Stop)
	return m.state
}

// boundStart has a command whose start does not end killed when the sequence
// would come to KILL.
func (m *machine) boundStart(seq signals.Sequence) {
	at := time.Now().Add(seq.Duration())
	if m.killAt.IsZero() || at.Before(m.killAt) {
		m.killAt = at
		m.stepTimer.Reset(seq.Duration())
	}
}

func (m *machine) killStart(event) State {
	m.log.Warn("the command's program has not begun to run; killing it")
	m.killing = true
	_ = m.guard.Kill()
	m.silence.Reset(guardPatience)
	return m.state
}

// noteStop remembers that the user wants an end, and with which signal.
func (m *machine) noteStop(e event) State {
	m.log.Info("told to end", "signal", signals.Name(e.sig))
	if m.stopSig == 0 {
		m.stopSig = e.sig
	}
	if m.state == Releasing && m.after != Ended {
		m.outcome, m.after = Outcome{Status: signalBase + int(e.sig)}, Ended
	}
	return m.state
}

// lose begins the loss sequence, unless a sequence is under way that kills
// sooner.
func (m *machine) lose(e event) State {
	m.lossCause = e.err
	m.verifyTimer.Stop()
	m.log.Error("slot lost, ending the command", "error", e.err)
	if m.state == Stopping && (m.killing || time.Until(m.killAt) <= m.cfg.Loss.Duration()) {
		return Losing
	}
	m.beginSequence(m.cfg.Loss)
	return Losing
}

// loseUnverified is for a slot that nothing is known of for so long that the
// loss sequence just fits before the deadline.
func (m *machine) loseUnverified(e event) State {
	e.err = fmt.Errorf("not verified in time: %w", lock.ErrLost)
	return m.lose(e)
}

// loseOverdue is for a guard that had to act by itself, because this process
// was stopped, or too slow.
func (m *machine) loseOverdue(e event) State {
	e.err = fmt.Errorf("the deadline passed without a verification, the guard killed the command: %w", lock.ErrLost)
	return m.lose(e)
}

// loseStart keeps a loss until the command that is being started has started.
func (m *machine) loseStart(e event) State {
	if e.err == nil {
		e.err = fmt.Errorf("not verified in time: %w", lock.ErrLost)
	}
	m.lossCause = e.err
	m.boundStart(m.cfg.Loss)
	return m.state
}

// doubtStart is doubt while the command is being started.
func (m *machine) doubtStart(e event) State {
	if errors.Is(e.err, lock.ErrLost) {
		return m.loseStart(e)
	}
	m.verifyTimer.Reset(pauseBefore(m.verifyAt))
	m.doubtful = true
	return m.state
}

// beginSequence begins a sequence in place of the one under way. A frozen
// command is thawed after the first signal was sent, so that it does nothing
// before it gets it.
func (m *machine) beginSequence(seq signals.Sequence) {
	m.steps = seq
	m.killAt = time.Now().Add(seq.Duration())
	m.log.Info("ending the command", "sequence", seq.String())
	m.step(event{})
	m.thaw()
}

// step does the next step of the sequence.
func (m *machine) step(event) State {
	if len(m.steps) == 0 {
		return m.state
	}
	next := m.steps[0]
	m.steps = m.steps[1:]
	if next.Signal == unix.SIGKILL {
		m.killing = true
		m.log.Debug("killing what is left of the command")
		_ = m.guard.Kill()
		m.silence.Reset(guardPatience)
		return m.state
	}
	_ = m.guard.Signal(next.Signal, Tree)
	m.stepTimer.Reset(next.Wait)
	return m.state
}

// noteKilling is for a guard that has sent KILL to the whole tree. It is not its
// fault if that takes long: a process waits in the kernel, or may not be
// signalled. To kill the guard as well would not end that, for as long as it says
// that it is there.
func (m *machine) noteKilling(event) State {
	m.silence.Reset(KillingInterval + guardPatience)
	return m.state
}

// abandon kills a guard that does not answer in time.
func (m *machine) abandon(event) State {
	m.log.Error("the guard does not answer; killing it and the command")
	m.guard.Abandon()
	return m.state
}

// noteRefused is for what berth cannot end, such as sudo(8) under a user's berth.
func (m *machine) noteRefused(e event) State {
	m.log.Error("a process may not be signalled (EPERM); the slot is not given back before it has ended", "process", e.guard.Pid)
	return m.state
}

// bury is for the end of the command's last process: the slot may be used by
// somebody again, us included.
func (m *machine) bury(e event) State {
	m.stepTimer.Stop()
	m.silence.Stop()
	m.guard, m.guardEvents = nil, nil
	m.command.running, m.command.frozen = false, false
	status := exitStatus(m.command.status)
	fallen := m.state == Starting && e.guard.Orphans // the guard, before it could say that it started anything
	switch {
	case m.stopSig != 0 && (fallen || !m.command.ended && m.startErr == nil): // nothing was started
		m.outcome = Outcome{Status: signalBase + int(m.stopSig)}
	case fallen && m.lossCause == nil && m.unusable != nil:
		m.outcome = Outcome{Status: cannotExecute, Err: m.unusable}
	case fallen && m.lossCause == nil && m.launches < startAttempts:
		m.launches++
		m.log.Error("the guard died before it could start the command; trying another")
		return m.prepareAgain(e)
	case fallen && m.lossCause == nil:
		m.outcome = Outcome{Status: cannotExecute, Err: fmt.Errorf("cannot execute the command: %d guards died before they could start it", m.launches+1)}
	case m.startErr != nil && m.ran && m.lossCause == nil && m.stopSig == 0 && !m.hungUp():
		m.log.Error("cannot start the command again yet", "error", m.startErr)
		m.startErr = nil
		return m.takeRest()
	case m.startErr != nil && (m.lossCause == nil || !m.ran):
		m.outcome = Outcome{Status: startStatus(m.startErr), Err: m.startErr}
	case m.stopSig != 0, m.command.finished && !m.restarts():
		m.outcome = Outcome{Status: status}
	case m.lossCause != nil && m.lossEnds():
		m.outcome = Outcome{Err: fmt.Errorf("%s: %w", m.cfg.ID, m.lossCause)}
	case m.lossCause != nil:
		return m.release(Pausing)
	case m.restarts():
		return m.takeRest()
	default:
		m.outcome = Outcome{Status: status}
	}
	return m.release(Ended)
}

// lossEnds reports whether berth ends when a slot is lost in which the command
// has run. With --try there is no second attempt, and without the terminal that
// it was started from nobody wants one.
func (m *machine) lossEnds() bool { return m.cfg.OnLoss == Exit || m.cfg.Try || m.hungUp() }

// restarts reports whether a command that ended by itself is to be started
// again. One that the user ended at the terminal, or with it, is not.
func (m *machine) restarts() bool {
	if m.command.wished || m.hungUp() {
		return false
	}
	return m.cfg.Restart == Always || m.cfg.Restart == OnFailure && m.command.status != 0
}

// longRun is how long a command has to have run for its next restart not to be
// one in a row of failures.
const longRun = 10 * time.Second

// takeRest keeps the slot and pauses before the command is started again.
func (m *machine) takeRest() State {
	if time.Since(m.command.began) >= longRun {
		m.rest.Reset()
	}
	pause := m.rest.NextBackOff()
	m.command.kept = nil
	m.log.Info("starting the command again", "in", pause.Round(time.Millisecond).String())
	if err := m.launch(); err != nil {
		m.log.Error("no guard for the next start yet", "error", err)
	} else {
		_ = m.guard.Bequeath(m.held.Handover().Will)
	}
	m.pauseTimer.Reset(pause)
	return Resting
}

// doubtResting is doubt while no command runs: only proof matters.
func (m *machine) doubtResting(e event) State {
	if errors.Is(e.err, lock.ErrLost) {
		return m.releaseLost(e)
	}
	m.verifyTimer.Reset(pauseBefore(m.verifyAt))
	return m.state
}

// noteLostIdle is for a backend that learned of a loss by itself while no
// command runs. A slot in which it has run can often be claimed again.
func (m *machine) noteLostIdle(e event) State {
	if !m.used || errors.Is(e.err, lock.ErrLost) {
		return m.releaseLost(e)
	}
	return m.noteLost(e)
}

// noteNotReady is for a slot in which the command may not start. If it has run
// in it, the slot is kept for as long as nothing proves its loss.
func (m *machine) noteNotReady(e event) State {
	if !m.used || errors.Is(e.err, lock.ErrLost) {
		return m.releaseLost(e)
	}
	if !m.doubtful {
		m.log.Warn("the slot is in doubt", "error", e.err)
	}
	m.doubtful = true
	m.pauseTimer.Reset(m.cfg.VerifyInterval)
	return Resting
}

// releaseUnused is for a slot that was won when berth had been told to end.
func (m *machine) releaseUnused(e event) State {
	m.held = e.held
	return m.release(Ended)
}

// releaseLost is for a slot that was lost, or never became ours for certain,
// while no command ran in it.
func (m *machine) releaseLost(e event) State {
	if e.err == nil {
		e.err = fmt.Errorf("not verified in time: %w", lock.ErrLost)
	}
	reason := e.err
	if !m.used && errors.Is(reason, lock.ErrLost) { // a loss ends what has run
		reason = lock.Errorf(lock.ErrUnknown, "%s", reason.Error())
	}
	m.lastErr = reason
	hopeless := m.hopeless(reason)
	switch {
	case hopeless: // berth says it when it ends
	case m.used && errors.Is(e.err, lock.ErrLost):
		m.log.Error("slot lost between two runs", "error", e.err)
	case errors.Is(e.err, lock.ErrLost):
		m.log.Warn("slot lost before the command was started", "error", e.err)
	case errors.Is(e.err, lock.ErrFull), errors.Is(e.err, lock.ErrDenied): // ErrFull: its holder wanted it back
		m.say(e.err)
	case m.news(e.err):
		m.log.Warn("slot given back before the start", "error", e.err)
	}
	if hopeless || m.used && m.lossEnds() {
		m.outcome = Outcome{Err: fmt.Errorf("%s: %w", m.cfg.ID, reason)}
		return m.release(Ended)
	}
	return m.release(Pausing)
}

// releaseTold ends berth on a signal while it holds a slot without a command.
func (m *machine) releaseTold(e event) State {
	m.noteStop(e)
	m.outcome = Outcome{Status: signalBase + int(e.sig)}
	return m.release(Ended)
}

// releaseLate ends berth because --timeout passed before the command could start.
func (m *machine) releaseLate(event) State {
	m.outcome = Outcome{Err: m.late()}
	return m.release(Ended)
}

// noteLate ends berth, once the slot is given back, because --timeout has passed
// meanwhile. The time is stopped while the command runs, and begins anew later.
func (m *machine) noteLate(event) State {
	if m.after != Ended {
		m.outcome, m.after = Outcome{Err: m.late()}, Ended
	}
	return m.state
}

// release begins to give the slot back. No process of the command is alive.
func (m *machine) release(after State) State {
	m.after = after
	m.command.kept = nil
	m.pauseTimer.Stop()
	m.verifyTimer.Stop()
	m.lostC, m.deadline = nil, 0
	_ = m.lossTimer.Set(0)
	m.overtime.Reset(callPatience + releaseTimeout) // a call that is under way is waited for first
	held := m.held
	m.begin(func(ctx context.Context) event {
		ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
		defer cancel()
		return event{on: released, err: held.Release(ctx)}
	})
	return Releasing
}

// releaseStuck ends berth although the slot may not have been given back: the end
// of the process frees it.
func (m *machine) releaseStuck(event) State {
	m.held = nil
	m.outcome = Outcome{Err: fmt.Errorf("%s: a call to the backend did not return: %w", m.cfg.ID, lock.ErrUnreachable)}
	return Ended
}

// afterRelease ends, or queues up again.
func (m *machine) afterRelease(e event) State {
	m.overtime.Stop()
	m.held = nil
	if e.err != nil {
		m.log.Debug("the slot's return was not confirmed; it is freed by closing the connection", "error", e.err)
	} else {
		m.log.Debug("slot given back")
	}
	m.log = m.cfg.Log
	if m.guard != nil {
		_ = m.guard.Bequeath(nil)
	}
	if m.after == Ended {
		return Ended
	}
	if m.guard == nil {
		if err := m.launch(); err != nil {
			m.log.Error("no guard for the next start yet", "error", err)
		}
	}
	if m.used {
		m.restartTimeout()
	}
	m.pauseTimer.Reset(m.poll.NextBackOff())
	return Pausing
}
