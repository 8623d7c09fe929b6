package loop

import (
	"errors"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/lock"
	"berth/signals"
	"berth/supervisor/machine"
)

// pauseToReconnect is for a backend that was not reached.
func (l *loop) pauseToReconnect(e event) {
	l.say(e.err)
	l.pauseTimer.Reset(l.reconnect.NextBackOff())
}

// waitForChange is for an attempt that yielded no slot.
func (l *loop) waitForChange(e event) {
	l.reconnect.Reset()
	if errors.Is(e.err, lock.ErrFull) || errors.Is(e.err, lock.ErrAbsent) {
		l.facts.Admitted = true
	}
	l.say(e.err)
	if l.cfg.Lock.Handovers() == nil && errors.Is(e.err, lock.ErrFull) {
		l.askToStepDown(0)
	}
	l.calls.Wait(l.poll.NextBackOff())
}

// say tells the user why there is no slot, when the reason has changed.
func (l *loop) say(err error) {
	if !l.news(err) {
		return
	}
	switch {
	case errors.Is(err, lock.ErrFull):
		l.log.Info("waiting: held by others")
	case errors.Is(err, lock.ErrAbsent):
		l.sayAbsent()
	case errors.Is(err, machine.ErrUnfit):
		l.log.Info("waiting: no health check has succeeded yet")
	case errors.Is(err, lock.ErrDenied):
		l.log.Error("waiting: refused", "error", err)
	default:
		l.log.Warn("waiting", "error", err)
	}
}

// sayAbsent tells the user that there is no slot at all, and how to make one.
func (l *loop) sayAbsent() {
	how := func(key string) []any {
		if l.cfg.CreateCommand == "" {
			return nil
		}
		return []any{key, l.cfg.CreateCommand}
	}
	if l.cfg.ID.Kind == lock.PersistentMutex {
		l.log.Warn("waiting: the lock is disabled", how("enable_it_with")...)
	} else {
		l.log.Warn("waiting: the lock does not exist", how("create_it_with")...)
	}
}

// news reports whether the user was last told something else.
func (l *loop) news(err error) bool {
	reason := err.Error()
	if reason == l.said {
		l.log.Debug("still waiting", "reason", reason)
		return false
	}
	l.said = reason
	return true
}

// restartTimeout begins a new period of waiting.
func (l *loop) restartTimeout() {
	l.facts.LastErr, l.said, l.since = nil, "", time.Now()
	l.waitsSince = l.since
	l.poll.Reset()
	l.resumeTimeout()
}

// resumeTimeout goes on with the period of waiting that began last.
func (l *loop) resumeTimeout() {
	l.since = l.waitsSince
	if l.cfg.Timeout > 0 {
		l.timeout.Reset(atLeastNow(l.waitsSince.Add(l.cfg.Timeout)))
	}
}

// quit ends what is under way while nothing is held.
func (l *loop) quit(event) {
	l.pauseTimer.Stop()
	if l.calls.Cancel() {
		l.overtime.Reset(l.env.callPatience)
	}
}

// noteSignal is for a signal that is the command's, while there is none. It is
// not kept: a command that starts later has not been told to reload anything,
// and before it is ready most signals would end it.
func (l *loop) noteSignal(sig syscall.Signal) {
	level := hclog.Info
	if sig == unix.SIGWINCH || sig == unix.SIGCONT { // dozens, while somebody pulls at a window
		level = hclog.Debug
	}
	l.log.Log(level, "signal received, but no command runs that could get it", "signal", signals.Name(sig))
}

// launchNext has a guard ready for the next start, if one can be launched now.
func (l *loop) launchNext() (launched bool) {
	err := l.launch()
	if err != nil {
		l.tellNoGuard(err)
	}
	return err == nil
}

// launchAtOnce is for a slot that is ready while there is no guard.
func (l *loop) launchAtOnce(e event) {
	if err := l.launch(); err != nil {
		e.on, e.err = machine.NoGuard, err
	}
	l.follows = e
}

// tellNoGuard is for a guard that cannot work although another one could before.
func (l *loop) tellNoGuard(err error) {
	l.log.Error("no guard for the next start yet", "error", err)
}

// atLeastNow returns a timer's time, no less than nothing.
func atLeastNow(at time.Time) time.Duration { return max(0, time.Until(at)) }
