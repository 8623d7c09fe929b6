package loop

import (
	"errors"
	"time"

	"berth/lock"
	"berth/supervisor"
	"berth/supervisor/checks"
	"berth/supervisor/machine"
)

// judged is whom checks judge now.
type judged int

const (
	ofNobody  judged = iota
	ofCommand        // which runs
	ofHost           // which waits for a slot
)

// health is what the loop knows of the health of the command, or of this host while it waits. A check runs beside the
// command with a guard of its own. It is killed when nobody is to be judged any more, and no slot is given back before
// it is dead.
type health struct {
	of       judged
	checks   *checks.Checks
	due      *time.Timer // of the next check
	failures int         // in a row
	started  time.Time   // when the command was, for the start period
	withheld bool        // this berth would contend if a check had succeeded

	// dead is the death of the command's tree, which is told once the check is dead too. nil: nothing is kept.
	dead *event
}

// whom returns whom a check would judge now. A command that berth or its user has stopped is not to blame for that.
func (l *loop) whom() judged {
	health := l.cfg.Health
	switch stopped := l.command.frozen || l.command.suspended; {
	case l.state.Working() && health.Check != nil && l.facts.Command.Phase == machine.Alive && !stopped:
		return ofCommand
	case l.state.Contending() && health.WhileWaiting:
		return ofHost
	}
	return ofNobody
}

// tend begins checks and ends them, as what has happened last asks for. It comes after every event.
func (l *loop) tend() {
	if l.facts.Command.Phase != machine.Alive || !l.state.Working() {
		l.runTime.Stop()
	}
	now := l.whom()
	if now == l.health.of {
		return
	}
	l.health.of, l.health.failures = now, 0
	l.health.due.Stop()
	l.health.checks.BreakOff()
	switch now {
	case ofCommand:
		l.health.due.Reset(l.cfg.Health.Interval)
	case ofHost:
		l.health.due.Reset(0)
	}
}

// beginCheck has a check begun. It is of the slot as the command is: it keeps the files of a local lock open, and what
// has the will of the command's guard wait.
func (l *loop) beginCheck() {
	if l.health.checks.UnderWay() { // one that was broken off, and is not dead yet
		l.health.due.Reset(l.cfg.Health.Interval)
		return
	}
	start := supervisor.Start{Vars: append(l.identity(), "BERTH_REASON="+reasonWaiting)}
	ofCommand := l.health.of == ofCommand
	if ofCommand {
		start = supervisor.Start{Vars: append(l.vars(), "BERTH_REASON="+reasonRunning),
			Files: l.held.Handover().Files, Deadline: l.deadline}
	}
	if err := l.health.checks.Begin(start, ofCommand); err != nil {
		l.log.Warn("health check could not be run; it does not count", "problem", err.Error())
		l.health.due.Reset(l.cfg.Health.Interval)
	}
}

// noteChecked is for a check whose tree is dead.
func (l *loop) noteChecked(v supervisor.Verdict) event {
	counts := l.health.checks.Ended()
	if dead := l.health.dead; dead != nil {
		l.health.dead = nil
		return *dead
	}
	if !counts {
		return event{}
	}
	l.health.due.Reset(l.cfg.Health.Interval)
	l.tally.Checked(v.Outcome)
	switch v.Outcome {
	case supervisor.CheckSucceeded:
		l.noteHealthy()
	case supervisor.CheckFailed:
		return l.noteFailed(v)
	default:
		l.log.Warn("health check could not be run; it does not count", "problem", v.Problem)
	}
	return event{}
}

// noteHealthy is for a check that has succeeded.
func (l *loop) noteHealthy() {
	if l.health.failures > 0 || l.facts.Unfit || l.health.of == ofCommand && !l.facts.Healthy {
		l.log.Info("health check succeeded", "failures_before", l.health.failures)
	}
	l.health.failures, l.facts.Unfit = 0, false
	if l.health.of == ofCommand {
		l.facts.Healthy = true
		return
	}
	if l.health.withheld {
		l.health.withheld = false
		l.pauseTimer.Reset(0)
	}
	full := l.state == supervisor.Waiting && errors.Is(l.facts.LastErr, lock.ErrFull)
	if full && (l.successorOf > 0 || l.cfg.Lock.Handovers() == nil) {
		l.askToStepDown(l.successorOf)
	}
}

// noteFailed is for a check that has failed. While the command starts that is no surprise.
func (l *loop) noteFailed(v supervisor.Verdict) event {
	cfg := l.cfg.Health
	fields := []any{"problem", v.Problem}
	if v.Output != "" {
		fields = append(fields, "output", v.Output)
	}
	if l.health.of == ofCommand && !l.facts.Healthy && time.Since(l.health.started) < cfg.StartPeriod {
		l.log.Info("health check failed, in the start period", fields...)
		return event{}
	}
	l.health.failures++
	fields = append(fields, "failures", l.health.failures, "retries", cfg.Retries)
	switch {
	case l.health.failures < cfg.Retries:
		l.log.Warn("health check failed", fields...)
		return event{}
	case l.health.failures > cfg.Retries: // of a host that waits
		l.log.Debug("health check failed", fields...)
		return event{}
	}
	l.facts.Unfit = cfg.WhileWaiting
	if l.health.of == ofHost {
		l.log.Warn("health check failed; this berth takes no slot before one succeeds", fields...)
		l.takeover.end()
		return event{on: machine.Unhealthy}
	}
	l.log.Error("health check failed; the command is unhealthy", fields...)
	l.tally.Cut(supervisor.CutUnhealthy)
	return event{on: machine.Unhealthy}
}

// withhold waits for a check that succeeds before this berth contends.
func (l *loop) withhold(event) {
	l.health.withheld = true
	l.facts.LastErr = machine.ErrUnfit
	l.say(machine.ErrUnfit)
}

// noteRunOver is for a command that has run for as long as it may.
func (l *loop) noteRunOver() event {
	l.log.Error("the command has run for too long", "max_run", l.cfg.MaxRun.String())
	l.tally.Cut(supervisor.CutMaxRun)
	return event{on: machine.RunOver}
}

// afterCheck keeps the death of the command's tree until a check that may be alive is dead too: what comes after it
// may give the slot back.
func (l *loop) afterCheck(e event) event {
	if !l.health.checks.UnderWay() {
		return e
	}
	l.health.dead = &e
	l.guardEvents = nil
	l.stepTimer.Stop()
	l.health.checks.BreakOff()
	return event{}
}

// healthState is what is told of the health.
func (l *loop) healthState() supervisor.HealthState {
	switch {
	case l.facts.Ending.Reason == machine.Failing && l.state == supervisor.Stopping:
		return supervisor.Unhealthy
	case l.health.of == ofNobody:
		return ""
	case l.health.failures >= l.cfg.Health.Retries:
		return supervisor.Unhealthy
	case l.health.of == ofCommand && !l.facts.Healthy, l.health.of == ofHost && l.facts.Unfit:
		return supervisor.HealthStarting
	}
	return supervisor.Healthy
}

// closeHealth ends a check that is under way, and waits for that as long as patience.
func (l *loop) closeHealth(patience time.Duration) {
	l.health.due.Stop()
	l.runTime.Stop()
	if !l.health.checks.Close(patience) {
		l.log.Error("a health check did not end")
	}
}
