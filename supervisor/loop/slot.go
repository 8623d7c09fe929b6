package loop

import (
	"strconv"
	"time"

	"berth/internal/boottime"
	"berth/lock"
	"berth/supervisor"
	"berth/supervisor/machine"
)

// longRun is how long a command has to have run for its next restart not to be
// one in a row of failures.
const longRun = 10 * time.Second

// prepare takes the slot that was won.
func (l *loop) prepare(e event) {
	l.reconnect.Reset()
	l.tally.Won(time.Since(l.since))
	l.held, l.lostC = e.held, e.held.Lost()
	l.since, l.verified = time.Now(), 0
	l.takeover.end()
	l.successorOf = 0
	l.facts.LastErr, l.facts.GuardDeaths, l.facts.Use = nil, 0, machine.Unused
	l.facts.Lost, l.facts.Last = false, false
	l.log = l.cfg.Log.With("slot", l.held.Slot())
	l.log.Debug("slot won")
	l.calls.Prepare(l.held, l.enough(l.held.Lease(), l.cfg.Margin+l.cfg.Loss.Duration()+l.cfg.VerifyTimeout))
}

// enough returns what reports whether a proof leaves the next one the time that it may take. A proof from before a wait
// can be older than the interval of verification.
func (l *loop) enough(lease, need time.Duration) func(proven boottime.Instant) bool {
	return func(proven boottime.Instant) bool { return lease == 0 || l.cfg.Clock.Until(proven.Add(lease-need)) > 0 }
}

// inherit has the guard that waits keep what belongs to the place in which this berth
// waits.
func (l *loop) inherit(h lock.Handover) {
	if l.guard != nil && l.held == nil {
		_ = l.guard.SetWill(h.Will)
	}
	if l.successorOf = h.Slot; h.Slot > 0 {
		l.askToStepDown(h.Slot)
	} else {
		l.takeover.end()
	}
}

// prepareAgain is for another start in the slot.
func (l *loop) prepareAgain(event) {
	l.verifyTimer.Stop()
	l.calls.PrepareAgain(l.held, l.lossAt())
}

// start tells the guard to start the command.
func (l *loop) start(e event) {
	l.proved(e.since)
	l.facts.Admitted = true
	l.facts.Use = max(l.facts.Use, machine.Ordered)
	l.facts.Command = machine.Command{Phase: machine.Beginning}
	l.command = command{began: time.Now(), kept: l.command.kept} // kept for the guard that is replaced
	l.sequence, l.facts.Healthy = sequence{}, false
	l.logSlot()
	l.facts.Last = !l.facts.Policy.Restarts() && !l.facts.Policy.OnRelease && l.cfg.Health.Check == nil
	handover := l.held.Handover()
	_ = l.guard.Start(supervisor.Start{Vars: l.vars(), Files: handover.Files, Will: handover.Will,
		Deadline: l.deadline, Last: l.facts.Last, Beside: l.health.checks.Attach()})
}

// logSlot has the log say what is held.
func (l *loop) logSlot() {
	l.log = l.cfg.Log.With("slot", l.held.Slot())
	if term := l.held.Term(); term != 0 {
		l.log = l.log.With("term", term)
	}
}

// proved is for a slot that is proved to be held, where the command may start.
func (l *loop) proved(since boottime.Instant) {
	l.timeout.Stop()
	l.cfg.Takeover = nil // it has taken over: two that asked each other for the slot would never end
	l.renewed(since)
	l.verifyAt = time.Now().Add(l.cfg.Clock.Until(since.Add(l.cfg.VerifyInterval)))
	l.verifyTimer.Reset(atLeastNow(l.verifyAt))
}

// identity is what does not depend on a slot of what the command is told.
func (l *loop) identity() []string {
	return []string{
		"BERTH_NAME=" + l.cfg.ID.Name,
		"BERTH_KIND=" + string(l.cfg.ID.Kind),
		"BERTH_HOLDER=" + l.cfg.Holder,
	}
}

// vars is what the command is told about its slot.
func (l *loop) vars() []string {
	vars := append(l.identity(), "BERTH_SLOT="+strconv.Itoa(l.held.Slot()))
	if term := l.held.Term(); term != 0 {
		vars = append(vars, "BERTH_TERM="+strconv.FormatUint(term, 10))
	}
	return vars
}

// renew counts the deadline from the start of a verification that succeeded.
func (l *loop) renew(e event) {
	l.renewed(e.since)
	l.verifyTimer.Reset(atLeastNow(l.verifyAt))
	if l.deadline != 0 {
		l.health.checks.Renew(l.deadline)
	}
	if l.facts.Command.Phase != machine.Absent && l.deadline != 0 && l.health.dead == nil {
		if err := l.guard.Renew(l.deadline); err != nil {
			l.log.Error("the guard does not answer; killing it and the command", "error", err)
			l.guard.Abandon()
		}
	}
}

// renewed ends a doubt, and sets when the tree has to be dead.
func (l *loop) renewed(since boottime.Instant) {
	l.facts.Doubted, l.verified = false, since
	if l.lostC == nil {
		l.lostC = l.held.Lost() // of a doubt that is over, or that has to be looked at
	}
	l.deadline = 0
	if lease := l.held.Lease(); lease > 0 {
		l.deadline = since.Add(lease - l.cfg.Margin)
	}
	l.tally.Proved(since, l.deadline)
	l.setLossTimer()
}

// endDoubt is for a doubt that a verification has ended.
func (l *loop) endDoubt(e event) {
	l.renew(e)
	l.log.Info("slot verified again")
}

// setLossTimer is for a deadline, or a loss sequence, that has changed.
func (l *loop) setLossTimer() {
	if err := l.lossTimer.Set(l.lossAt()); err != nil {
		l.log.Error("cannot set the timer of the loss sequence", "error", err)
	}
}

// lossAt is when the loss sequence has to begin to end before the deadline.
func (l *loop) lossAt() boottime.Instant {
	if l.deadline == 0 {
		return 0
	}
	return l.deadline.Add(-l.cfg.Loss.Duration())
}

// verify begins a verification, unless a call is under way.
func (l *loop) verify() {
	if !l.calls.UnderWay() {
		l.calls.Verify(l.held, l.lossAt())
		l.began = time.Now()
		l.verifyAt = l.began.Add(l.cfg.VerifyInterval)
	}
}

// verifyAgain is for a verification that proved nothing.
func (l *loop) verifyAgain(event) { l.verifyTimer.Reset(atLeastNow(l.verifyAt)) }

func (l *loop) doubt(e event) {
	l.verifyAgain(e)
	l.facts.Doubted = true
}

// tellDoubt is for the first verification that proved nothing.
func (l *loop) tellDoubt(e event) {
	l.doubt(e)
	lossIn := "never"
	if l.deadline != 0 {
		lossIn = max(0, l.cfg.Clock.Until(l.lossAt())).Round(100 * time.Millisecond).String()
	}
	l.log.Warn("verification failed, the slot is in doubt", "error", e.err, "loss_sequence_in", lossIn)
}

// verifyNow is for a backend that learned of a doubt by itself.
func (l *loop) verifyNow(e event) {
	l.log.Warn("the slot is in doubt", "error", e.err)
	l.verifyAt = time.Now() // also if one is under way
	l.verifyTimer.Reset(0)
	l.facts.Doubted = true
}

// restInDoubt is for a slot in which the command has run and may not start.
func (l *loop) restInDoubt(e event) {
	if !l.facts.Doubted {
		l.log.Warn("the slot is in doubt", "error", e.err)
	}
	l.facts.Doubted = true
	l.pauseTimer.Reset(l.cfg.VerifyInterval)
}

// prepareRetry replaces a guard that has died before it could start the command.
func (l *loop) prepareRetry(e event) {
	l.facts.GuardDeaths++
	l.log.Error("the guard died before it could start the command; trying another")
	l.prepareAgain(e)
}

// pauseBeforeStart keeps the slot and pauses before the command is started again.
// The guard that will start it has the will until then.
func (l *loop) pauseBeforeStart(event) {
	if err := l.facts.Command.Err; err != nil {
		l.log.Error("cannot start the command again yet", "error", err)
		l.facts.Command.Err = nil
	}
	l.command.kept = nil
	if time.Since(l.command.began) >= longRun {
		l.rest.Reset()
	}
	pause := l.rest.NextBackOff()
	l.log.Info("starting the command again", "in", pause.Round(time.Millisecond).String())
	if l.launchNext() {
		_ = l.guard.SetWill(l.held.Handover().Will)
	}
	l.pauseTimer.Reset(pause)
}

// renewAndRest is for a slot that is ready while no guard can be launched.
func (l *loop) renewAndRest(e event) {
	l.proved(e.since)
	l.pauseBeforeStart(e)
}
