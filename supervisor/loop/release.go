package loop

import (
	"errors"
	"time"

	"berth/lock"
	"berth/supervisor/calls"
	"berth/supervisor/machine"
)

// stepDownPause is how long one that was asked to step down, or whose command was unhealthy, leaves the slot to those
// who wait, also where the backend knows no order among them.
const stepDownPause = 500 * time.Millisecond

// releaseLost gives up a slot in which no command runs, and says why.
func (l *loop) releaseLost(e event) {
	used, lost := l.facts.Use != machine.Unused, errors.Is(e.err, lock.ErrLost)
	l.facts.Lost = true
	l.hooks.loss = e.err
	l.facts.LastErr = l.facts.Ending.Exit.Err
	if l.facts.Use == machine.HasRun && lost {
		l.tally.Lost(causeOf(e.err), e.err)
	}
	switch {
	case l.facts.Hopeless(l.facts.Ending.Exit.Err): // berth says it when it ends
	case used && errors.Is(e.err, lock.ErrRemoved):
		l.log.Warn("slot removed by an administrator between two runs", "error", e.err)
	case used && lost:
		l.log.Error("slot lost between two runs", "error", e.err)
	case lost:
		l.log.Warn("slot lost before the command was started", "error", e.err)
	case errors.Is(e.err, lock.ErrFull), errors.Is(e.err, lock.ErrDenied): // ErrFull: its holder wanted it back
		l.say(e.err)
	case l.news(e.err):
		l.log.Warn("slot given back before the start", "error", e.err)
	}
	l.release(e)
}

// release begins to give the slot back. No process of the command is alive.
func (l *loop) release(e event) {
	l.command.kept = nil
	if e.held != nil { // won when berth had been told to end
		l.held = e.held
		l.facts.Lost, l.facts.Last, l.facts.Use = false, false, machine.Unused
	}
	l.logSlot()
	l.hooks.vars = l.vars()
	l.pauseTimer.Stop()
	l.verifyTimer.Stop()
	l.lostC, l.deadline = nil, 0
	_ = l.lossTimer.Set(0)
	l.overtime.Reset(l.env.callPatience + calls.ReleaseTimeout) // a call that is under way is waited for first
	l.calls.Release(l.held)
}

// noteReleased is for a slot that has been given back. The will of the guard that
// waits for the next start belonged to it.
func (l *loop) noteReleased(err error) {
	l.overtime.Stop()
	l.held, l.successorOf = nil, 0
	if err != nil {
		l.log.Debug("the slot's return was not confirmed; it is freed by closing the connection", "error", err)
	} else {
		l.log.Debug("slot given back")
	}
	if l.guard != nil {
		_ = l.guard.SetWill(nil)
	}
}

// queueAgain goes on to the next slot. What on_lost had to say was about the last one.
func (l *loop) queueAgain(event) {
	l.log = l.cfg.Log
	if l.guard == nil {
		l.launchNext()
	}
	if l.facts.Use != machine.Unused {
		l.restartTimeout()
	} else {
		l.resumeTimeout()
	}
	aside := l.facts.Ending.Reason == machine.Asked || l.facts.Ending.Reason == machine.Failing
	if aside {
		l.facts.LastErr = l.facts.Ending.Exit.Err // nil where the command has run
	}
	if l.facts.Ending.Reason == machine.Refused {
		l.pauseTimer.Reset(l.refusals.NextBackOff())
		return
	}
	pause := l.poll.NextBackOff()
	if aside {
		pause += stepDownPause
	}
	l.pauseTimer.Reset(pause)
}
