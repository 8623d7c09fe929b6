package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/internal/boottime"
	"berth/lock"
	"berth/signals"
)

// connect begins to reach the backend.
func (m *machine) connect(event) State {
	m.begin(func(ctx context.Context) event {
		if err := m.cfg.Lock.Connect(ctx); err != nil {
			return event{on: notConnected, err: err}
		}
		return event{on: connected}
	})
	return Connecting
}

// attempt begins one attempt at a slot.
func (m *machine) attempt(event) State {
	m.begin(func(ctx context.Context) event {
		since := boottime.Now()
		held, err := m.cfg.Lock.Acquire(ctx)
		if err != nil {
			return event{on: notAcquired, err: err}
		}
		return event{on: acquired, held: held, since: since}
	})
	return Attempting
}

// pauseAfter decides what to do about a backend that was not reached.
func (m *machine) pauseAfter(e event) State {
	m.lastErr = e.err
	if m.hopeless(e.err) {
		return m.giveUp(e.err)
	}
	m.say(e.err)
	m.pauseTimer.Reset(m.reconnect.NextBackOff())
	return Pausing
}

// waitAfter decides what to do about an attempt that yielded no slot.
func (m *machine) waitAfter(e event) State {
	if errors.Is(e.err, lock.ErrUnreachable) {
		return m.pauseAfter(e)
	}
	m.lastErr = e.err
	if m.hopeless(e.err) {
		return m.giveUp(e.err)
	}
	m.reconnect.Reset()
	if errors.Is(e.err, lock.ErrFull) || errors.Is(e.err, lock.ErrAbsent) {
		m.proven = true
	}
	m.say(e.err)
	pause := m.poll.NextBackOff()
	m.begin(func(ctx context.Context) event {
		if err := m.cfg.Lock.Wait(ctx, pause); err != nil {
			return event{on: notWoken, err: err}
		}
		return event{on: woken}
	})
	return Waiting
}

// hopeless reports whether waiting would not help: with --try nothing is waited
// for, and what was refused from the beginning is a mistake to be mended. Once
// the backend has let us work, a refusal is taken for a passing state of it.
func (m *machine) hopeless(err error) bool {
	if m.cfg.Try || errors.Is(err, lock.ErrUnsafe) {
		return true
	}
	return errors.Is(err, lock.ErrDenied) && !m.proven
}

func (m *machine) giveUp(err error) State {
	if errors.Is(err, lock.ErrFull) {
		err = fmt.Errorf("%w; without --try berth waits for it", err)
	}
	m.outcome = Outcome{Err: err}
	return Ended
}

// say tells the user why there is no slot, when the reason has changed.
func (m *machine) say(err error) {
	if !m.news(err) {
		return
	}
	switch {
	case errors.Is(err, lock.ErrFull):
		m.log.Info("waiting: all slots are held")
	case errors.Is(err, lock.ErrAbsent):
		m.log.Warn("waiting: the lock does not exist", m.createHint()...)
	case errors.Is(err, lock.ErrDenied):
		m.log.Error("waiting: refused", "error", err)
	default:
		m.log.Warn("waiting", "error", err)
	}
}

// createHint returns what the log says about how to make the lock.
func (m *machine) createHint() []any {
	if m.cfg.CreateCommand == "" {
		return nil
	}
	return []any{"create_it_with", m.cfg.CreateCommand}
}

// news reports whether the user was last told something else.
func (m *machine) news(err error) bool {
	reason := err.Error()
	if reason == m.said {
		m.log.Debug("still waiting", "reason", reason)
		return false
	}
	m.said = reason
	return true
}

// restartTimeout begins a new period of waiting.
func (m *machine) restartTimeout() {
	m.lastErr, m.said = nil, ""
	m.poll.Reset()
	if m.cfg.Timeout > 0 {
		m.timeout.Reset(m.cfg.Timeout)
	}
}

// quit ends berth on a signal while it holds nothing that it knows of.
func (m *machine) quit(e event) State {
	m.noteStop(e)
	m.outcome = Outcome{Status: signalBase + int(e.sig)}
	return m.cancelCall()
}

// quitLate ends berth because --timeout has passed.
func (m *machine) quitLate(event) State {
	m.outcome = Outcome{Err: m.late()}
	return m.cancelCall()
}

// late says that the time is over, and what was in the way.
func (m *machine) late() error {
	err := m.lastErr
	switch {
	case err != nil:
	case m.state == Preparing:
		err = lock.ErrUnknown
	default:
		err = errUnfinished
	}
	return fmt.Errorf("%s not obtained within %s: %w", m.cfg.ID, m.cfg.Timeout, err)
}

// errUnfinished: the time was over before anything was found out.
var errUnfinished = lock.Errorf(lock.ErrUnknown, "no attempt was finished in that time; give it longer")

func (m *machine) cancelCall() State {
	m.pauseTimer.Stop()
	if m.call == nil {
		return Ended
	}
	m.call()
	m.overtime.Reset(callPatience)
	return Quitting
}

// prepare waits until the command may start in the slot that was won, and
// proves once more that it is still ours.
func (m *machine) prepare(e event) State {
	m.reconnect.Reset()
	m.held, m.lostC = e.held, e.held.Lost()
	m.lossCause, m.startErr, m.lastErr = nil, nil, nil
	m.launches, m.used, m.ran = 0, false, false
	m.log = m.cfg.Log.With("slot", m.held.Slot())
	m.log.Debug("slot won")
	return m.prepareAgain(e)
}

func (m *machine) prepareAgain(e event) State {
	m.verifyTimer.Stop()
	held, first, limit := m.held, !m.used, m.verifyLimit()
	m.begin(func(ctx context.Context) event {
		since, err := m.verifyReady(ctx, held, first, limit, e.since)
		if err != nil {
			return event{on: notReady, err: err}
		}
		return event{on: ready, since: since}
	})
	return Preparing
}

// verifyReady waits until the command may start. Before the first start in a
// slot that can take long, so a proof comes after it, unless the one that came
// with the slot, for the instant won, is as fresh as a verification has to be.
// For another start there is nothing to wait for, and the slot may have to be
// claimed again, which Verify does.
func (m *machine) verifyReady(ctx context.Context, held lock.Held, first bool, limit time.Duration, won boottime.Instant) (since boottime.Instant, err error) {
	if !first {
		if since, err = verifyWithin(ctx, held, limit); err != nil {
			return 0, err
		}
		return since, held.Ready(ctx)
	}
	if err := held.Ready(ctx); err != nil {
		return 0, err
	}
	if won.Add(m.cfg.VerifyInterval).Until() > 0 {
		return won, nil
	}
	return verifyWithin(ctx, held, limit)
}

// verifyLimit is how long the next verification may take. Without a connection
// it has to be made, and the slot claimed again: that takes many answers, and
// gets the time that there is.
func (m *machine) verifyLimit() time.Duration {
	if m.deadline == 0 || m.held.Cause() == nil {
		return m.cfg.VerifyTimeout
	}
	return max(m.cfg.VerifyTimeout, m.lossAt().Until())
}

// verifyWithin verifies once. What it proves counts from the beginning.
func verifyWithin(ctx context.Context, held lock.Held, limit time.Duration) (since boottime.Instant, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	since = boottime.Now()
	return since, held.Verify(ctx)
}

// noteSignal is for a signal that is the command's, while there is none. It is
// not kept: a command that starts later has not been told to reload anything,
// and before it is ready most signals would end it.
func (m *machine) noteSignal(e event) State {
	level := hclog.Info
	if e.sig == unix.SIGWINCH || e.sig == unix.SIGCONT { // dozens, while somebody pulls at a window
		level = hclog.Debug
	}
	m.log.Log(level, "signal received, but no command runs that could get it", "signal", signals.Name(e.sig))
	return m.state
}

// stay is for what changes nothing.
func (m *machine) stay(event) State { return m.state }

// end is for the call that Quitting was waiting for. A backend that was being
// reached when the time was over says only now that it was not.
func (m *machine) end(e event) State {
	if e.on == notConnected && errors.Is(m.outcome.Err, errUnfinished) && errors.Is(e.err, lock.ErrUnreachable) {
		m.lastErr = lock.ErrUnreachable
		m.outcome = Outcome{Err: m.late()}
	}
	return Ended
}

// pauseBefore returns a timer's time, no less than nothing.
func pauseBefore(at time.Time) time.Duration { return max(0, time.Until(at)) }
