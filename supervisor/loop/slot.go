package loop

import (
	"errors"
	"strconv"
	"time"

	"berth/internal/boottime"
	"berth/lock"
	"berth/supervisor"
	"berth/supervisor/calls"
	"berth/supervisor/machine"
)

// longRun is how long a command has to have run for its next restart not to be
// one in a row of failures.
const longRun = 10 * time.Second

// stepDownPause is how long one that was asked to step down, or whose command was unhealthy, leaves the slot to those
// who wait, also where the backend knows no order among them.
const stepDownPause = 500 * time.Millisecond

// prepare takes the slot that was won.
func (l *loop) prepare(e event) {
	l.reconnect.Reset()
	l.tally.Won(time.Since(l.since))
	l.held, l.lostC = e.held, e.held.Lost()
	l.since, l.verified = time.Now(), 0
	l.takeover.end()
	l.next = 0
	l.facts.LastErr, l.facts.Fallen, l.facts.Use = nil, 0, machine.Unused
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
		_ = l.guard.Bequeath(h.Will)
	}
	if l.next = h.Slot; h.Slot > 0 {
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
	if l.cfg.Health.Check != nil {
		l.health.beside.close()
		l.health.beside = newBeside()
	}
	handover := l.held.Handover()
	_ = l.guard.Start(supervisor.Start{Vars: l.vars(), Files: handover.Files, Will: handover.Will,
		Deadline: l.deadline, Last: l.facts.Last, Beside: l.health.beside.file})
	l.silence.Reset(l.env.guardPatience)
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
	l.renewCheck()
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
	l.facts.Fallen++
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
		_ = l.guard.Bequeath(l.held.Handover().Will)
	}
	l.pauseTimer.Reset(pause)
}

// renewAndRest is for a slot that is ready while no guard can be launched.
func (l *loop) renewAndRest(e event) {
	l.proved(e.since)
	l.pauseBeforeStart(e)
}

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
	l.held, l.next = nil, 0
	if err != nil {
		l.log.Debug("the slot's return was not confirmed; it is freed by closing the connection", "error", err)
	} else {
		l.log.Debug("slot given back")
	}
	if l.guard != nil {
		_ = l.guard.Bequeath(nil)
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
