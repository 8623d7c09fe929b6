package loop

import (
	"time"

	"berth/internal/guard/wire"
	"berth/supervisor"
	"berth/supervisor/machine"
)

// hooks is what the loop knows of the hooks of one slot. The hook that runs has a guard of its own, which takes the
// place of the command's until its tree is dead: so deadline, sequences and the death of a guard are the same for both.
type hooks struct {
	spare       supervisor.Guard // waits for the command while a hook's guard is in its place, nil: none
	spareEvents <-chan wire.Event

	killAt time.Time // when the hook that runs is killed
	loss   error     // why the slot was lost
	vars   []string  // what the command was told about the slot that was given back last
}

// noEvents is what a guard tells that could not be launched.
var noEvents = func() <-chan wire.Event {
	none := make(chan wire.Event)
	close(none)
	return none
}()

// The reasons that hooks and health checks are told, as BERTH_REASON.
const (
	reasonAcquired    = "acquired"
	reasonEnded       = "ended"        // the command did, by itself
	reasonSignal      = "signal"       // berth was told to end
	reasonStepDown    = "step-down"    // somebody has asked for it
	reasonUnhealthy   = "unhealthy"    // its health checks failed
	reasonMaxRun      = "max-run"      // it has run for so long
	reasonNotStarted  = "not-started"  // the command could not be
	reasonRunning     = "running"      // the command does, and is to be judged
	reasonWaiting     = "waiting"      // berth does, and its host is to be judged
	reasonLost        = "lost"         // the broker or the kernel says so
	reasonNotVerified = "not-verified" // nothing was known of the slot for too long
	reasonDeadline    = "deadline"     // the guard killed the command: berth was stopped, or too slow
)

// noteHooks tells the machine which hooks there are.
func (l *loop) noteHooks() {
	policy, hooks := &l.facts.Policy, l.cfg.Hooks
	policy.OnAcquire, policy.OnRelease = hooks[supervisor.OnAcquire] != nil, hooks[supervisor.OnRelease] != nil
	policy.OnLost = hooks[supervisor.OnLost] != nil
}

// enter has on_acquire run in a slot that is ready.
func (l *loop) enter(e event) {
	l.proved(e.since)
	l.facts.Admitted = true
	l.startHook(supervisor.OnAcquire, l.slotStart(reasonAcquired, false))
}

// admit goes on to the command, after a new proof. Its guard has the will until then.
func (l *loop) admit(e event) {
	l.refusals.Reset()
	if l.guard != nil {
		_ = l.guard.SetWill(l.held.Handover().Will)
	}
	l.prepareAgain(e)
}

// refuse gives back a slot in which on_acquire did not let the command start.
func (l *loop) refuse(e event) {
	l.facts.LastErr = l.facts.Ending.Exit.Err
	l.log.Warn("on_acquire has refused the slot, giving it back")
	l.release(e)
}

// leave has on_release run in a slot in which nothing else is to run.
func (l *loop) leave(event) {
	l.pauseTimer.Stop()
	l.verifyTimer.Reset(atLeastNow(l.verifyAt))
	l.startHook(supervisor.OnRelease, l.slotStart(reasonToLeave(l.facts.Ending.Reason), true))
}

// reportLoss has on_lost run. The slot is not ours any more, so that nothing depends on when it ends.
func (l *loop) reportLoss(event) {
	vars := append(l.hooks.vars, "BERTH_REASON="+reasonOfLoss(l.hooks.loss))
	l.startHook(supervisor.OnLost, supervisor.Start{Vars: vars})
}

// slotStart is what the guard of a hook is told that runs in the slot.
func (l *loop) slotStart(reason string, last bool) supervisor.Start {
	l.logSlot()
	handover := l.held.Handover()
	return supervisor.Start{Vars: append(l.vars(), "BERTH_REASON="+reason), Files: handover.Files, Will: handover.Will,
		Deadline: l.deadline, Last: last}
}

func reasonToLeave(reason machine.Reason) string {
	switch reason {
	case machine.Told:
		return reasonSignal
	case machine.Asked:
		return reasonStepDown
	case machine.Failing:
		return reasonUnhealthy
	case machine.Overran:
		return reasonMaxRun
	case machine.NotBegun, machine.Unguarded:
		return reasonNotStarted
	}
	return reasonEnded
}

func reasonOfLoss(err error) string {
	switch causeOf(err) {
	case supervisor.DeadlinePassed:
		return reasonDeadline
	case supervisor.NotVerified:
		return reasonNotVerified
	}
	return reasonLost
}

// startHook has a hook started by a guard of its own. The command's keeps its will until that is there, and not while
// it runs: the will says that nothing does. A guard that cannot be launched is one that dies at once.
func (l *loop) startHook(hook supervisor.Hook, start supervisor.Start) {
	l.hooks.spare, l.hooks.spareEvents = l.guard, l.guardEvents
	l.facts.Command = machine.Command{Hook: hook, Phase: machine.Beginning}
	l.command, l.sequence = command{began: time.Now()}, sequence{}
	guard, err := l.cfg.Hooks[hook]()
	if l.hooks.spare != nil {
		_ = l.hooks.spare.SetWill(nil)
	}
	if err != nil {
		l.facts.Command.Phase, l.facts.Command.Err = machine.NotExecuted, err
		l.guard, l.guardEvents = nil, noEvents
		return
	}
	l.guard, l.guardEvents = guard, guard.Events()
	_ = l.guard.Start(start)
	l.hookTime.Reset(l.cfg.HookTimeout)
	l.hooks.killAt = time.Now().Add(l.cfg.HookTimeout)
}

// killHook is for a hook that takes too long.
func (l *loop) killHook() {
	l.facts.Command.Overtime = l.facts.Command.Phase != machine.Over
	l.log.Warn("hook takes too long, killing it", "hook", string(l.facts.Command.Hook),
		"hook_timeout", l.cfg.HookTimeout.String())
	l.kill()
}

// killRest is for what a hook leaves running when its first process has ended.
func (l *loop) killRest(event) {
	l.log.Warn("hook has left processes running, killing them", "hook", string(l.facts.Command.Hook))
	l.kill()
}

// noteHookExit is for the end of a hook's first process. Once on_acquire has succeeded, whatever it did in the slot
// is there to be undone.
func (l *loop) noteHookExit() {
	if c := l.facts.Command; c.Hook == supervisor.OnAcquire && c.Problem() == "" {
		l.facts.Use = max(l.facts.Use, machine.Ordered)
	}
}

// noteHookDeath is for the end of a hook's last process.
func (l *loop) noteHookDeath() {
	c := l.facts.Command
	if c.Hook == "" {
		return
	}
	took := time.Since(l.command.began).Round(time.Millisecond).String()
	if problem := c.Problem(); problem != "" {
		l.log.Warn("hook failed", "hook", string(c.Hook), "problem", problem, "took", took)
	} else {
		l.log.Info("hook ended", "hook", string(c.Hook), "took", took)
	}
}

// either returns what is to be said of the command, or of a hook if one runs in its place.
func (l *loop) either(command, hook string) string {
	if l.facts.Command.Hook != "" {
		return hook
	}
	return command
}
