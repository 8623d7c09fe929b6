package loop

import (
	"errors"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/guard/wire"
	"berth/lock"
	"berth/signals"
	"berth/supervisor"
	"berth/supervisor/machine"
)

// sequence is how the command is being ended. The zero value: it is not.
type sequence struct {
	steps   signals.Sequence // what is left of it
	to      wire.Scope       // Head: the first process, and once that has ended the rest; or Tree
	untold  []syscall.Signal // what in this step only the first process was sent
	killAt  time.Time        // when it comes to KILL
	killing bool             // the guard was told to kill
}

// killsWithin reports whether the sequence comes to KILL in that time.
func (s sequence) killsWithin(d time.Duration) bool {
	return s.killing || !s.killAt.IsZero() && time.Until(s.killAt) <= d
}

// stop begins the stop sequence with the signal that came.
func (l *loop) stop(e event) { l.beginSequence(l.cfg.Stop.Beginning(e.rewritten), e.to) }

// stopInOrder ends what the first process leaves behind, before the slot is given back, or
// a command whose berth was asked to step down.
func (l *loop) stopInOrder(e event) {
	if e.on == machine.Exited {
		l.log.Info("ending what the command has left running")
	}
	l.beginSequence(l.cfg.Stop, l.cfg.StopTo.Scope())
}

// lose begins the loss sequence, unless a sequence is under way that kills sooner.
func (l *loop) lose(e event) {
	l.verifyTimer.Stop()
	l.logLoss(e.err)
	l.tally.Lost(causeOf(e.err), e.err)
	l.facts.Lost, l.hooks.loss = true, e.err
	loss := l.cfg.Loss
	if errors.Is(e.err, lock.ErrOver) { // every moment is one too many
		loss = loss[len(loss)-1:]
	}
	if !l.sequence.killsWithin(loss.Duration()) {
		l.beginSequence(loss, wire.Tree)
		return
	}
	l.tellRest(e)
	if !l.facts.Command.Started() && loss.Duration() < l.sequence.steps.Duration() {
		// A command that has not started by then is killed no later than that. One that
		// does start would get all of the sequence from there on.
		if l.sequence.steps = loss; len(loss) > 1 {
			l.sendEnding(loss[0].Signal, wire.Tree)
		}
	}
}

// logLoss says that a slot in use was lost, and what berth does. A removal is what an administrator has asked for.
func (l *loop) logLoss(err error) {
	if !errors.Is(err, lock.ErrRemoved) {
		l.log.Error(l.either("slot lost, ending the command", "slot lost, ending the hook"), "error", err)
		return
	}
	follows := "; berth waits for another slot then"
	if l.facts.Ends(supervisor.Losing) {
		follows = "; berth ends then"
	}
	l.log.Warn(l.either("slot removed by an administrator, ending the command",
		"slot removed by an administrator, ending the hook")+follows, "error", err)
}

// beginSequence begins a sequence in place of the one under way. A frozen
// command is thawed after the first signal was sent, so that it does nothing
// before it gets it.
//
// For a command that is still being started it waits for that, but for no longer
// than the sequence takes: a start that does not end is killed when it would come
// to KILL.
func (l *loop) beginSequence(seq signals.Sequence, to wire.Scope) {
	l.sequence = sequence{steps: seq, to: to, killAt: time.Now().Add(seq.Duration())}
	if !l.facts.Command.Started() {
		if len(seq) > 1 {
			l.sendEnding(seq[0].Signal, to)
		}
		l.stepTimer.Reset(seq.Duration())
		return
	}
	l.log.Info(l.either("ending the command", "ending the hook"), "sequence", seq.String())
	l.step()
	l.thaw()
}

// sequenceAfterStart is for a command that has started while a sequence waits for
// that. The first signal was kept with the others, and has been sent.
func (l *loop) sequenceAfterStart(event) {
	if l.sequence.killing {
		return
	}
	steps := l.sequence.steps
	l.log.Info(l.either("ending the command", "ending the hook"), "sequence", steps.String())
	l.sequence.killAt = time.Now().Add(steps.Duration())
	if len(steps) == 1 { // KILL
		l.step()
		return
	}
	l.sequence.steps = steps[1:]
	l.stepTimer.Reset(steps[0].Wait)
}

// step does the next step of the sequence. A command that has not started by the time
// at which it would come to KILL is killed.
func (l *loop) step() {
	switch {
	case !l.facts.Command.Started():
		l.log.Warn(l.either("the command's program has not begun to run; killing it",
			"the hook's program has not begun to run; killing it"))
		l.kill()
		return
	case len(l.sequence.steps) == 0:
		return
	}
	next := l.sequence.steps[0]
	l.sequence.steps = l.sequence.steps[1:]
	if next.Signal == unix.SIGKILL {
		l.log.Debug(l.either("killing what is left of the command", "killing what is left of the hook"))
		l.kill()
		return
	}
	l.tally.Step(next.Signal)
	l.sequence.untold = nil
	l.sendEnding(next.Signal, l.sequence.to)
	l.stepTimer.Reset(next.Wait)
}

// handOn sends an ending signal that comes again.
func (l *loop) handOn(e event) {
	if l.sequence.to == wire.Tree {
		e.to = wire.Tree
	}
	l.sendEnding(e.rewritten, e.to)
}

// handOnSooner is for an ending signal while the loss sequence is under way: the
// command is killed no later than the stop sequence would.
func (l *loop) handOnSooner(e event) {
	if l.sequence.killsWithin(l.cfg.Stop.Duration()) {
		l.handOn(e)
		return
	}
	e.to = wire.Tree // as of the loss sequence
	l.stop(e)
}

// sendEnding sends a signal of a sequence, or one that is handed on beside it.
func (l *loop) sendEnding(sig syscall.Signal, to wire.Scope) {
	switch {
	case l.facts.Command.Phase == machine.Over:
		to = wire.Tree
	case to == wire.Head && !slices.Contains(l.sequence.untold, sig):
		l.sequence.untold = append(l.sequence.untold, sig)
	}
	l.send(sig, to)
}

// tellRest has the sequence go to the whole tree: the first process has ended, and cannot
// see to the end of the others, or there is no time to wait for that.
func (l *loop) tellRest(event) {
	for _, sig := range l.sequence.untold {
		l.send(sig, wire.Rest)
	}
	l.sequence.to, l.sequence.untold = wire.Tree, nil
}
