package loop

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/lock"
	"berth/signals"
	"berth/supervisor"
	"berth/supervisor/machine"
)

// command is what the loop knows of the command of one start. How far it has got is
// in machine.Command.
type command struct {
	pid       int // of its first process, 0: not known
	began     time.Time
	suspended bool         // from the terminal
	frozen    bool         // the guard was told to freeze it
	kept      []keptSignal // that came before it had started, in order
}

// keptSignal is one that the command gets once it has started.
type keptSignal struct {
	sig syscall.Signal
	to  supervisor.Scope
}

// sequence is how the command is being ended. The zero value: it is not.
type sequence struct {
	steps   signals.Sequence // what is left of it
	to      supervisor.Scope // Head: the first process, and once that has ended the rest; or Tree
	untold  []syscall.Signal // what in this step only the first process was sent
	killAt  time.Time        // when it comes to KILL
	killing bool             // the guard was told to kill
}

// killsWithin reports whether the sequence comes to KILL in that time.
func (s sequence) killsWithin(d time.Duration) bool {
	return s.killing || !s.killAt.IsZero() && time.Until(s.killAt) <= d
}

// noteAccepted is for a guard that has begun to start the command. That may
// take long; what ends it is a loss or a signal.
func (l *loop) noteAccepted() {
	l.guarded = true
	if !l.sequence.killing {
		l.silence.Stop()
	}
}

// noteStarted hands on what came while the command was being started.
func (l *loop) noteStarted(pid int) {
	l.facts.Command.Phase = machine.Alive
	if !l.sequence.killing {
		l.silence.Stop()
	}
	if l.facts.Command.Hook != "" {
		l.log.Info("hook started", "hook", string(l.facts.Command.Hook), "process", pid)
	} else {
		if again := l.facts.Use == machine.HasRun; again {
			l.tally.Started(time.Since(l.command.began), true)
		} else {
			l.tally.Started(time.Since(l.since), false)
		}
		l.facts.Fallen, l.facts.Use = 0, machine.HasRun
		if pid != 0 {
			l.command.pid = pid
			l.log = l.log.With("pid", pid)
		}
		l.log.Info("slot held, command started", "berth_pid", os.Getpid())
	}
	for _, kept := range l.command.kept {
		l.send(kept.sig, kept.to)
	}
	l.command.kept = nil
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

func (l *loop) noteNotStarted(errno syscall.Errno) {
	l.silence.Stop()
	l.facts.Command.Phase = machine.NotExecuted
	if l.facts.Command.Hook != "" {
		l.facts.Command.Err = errno
		return
	}
	l.facts.Command.Err = fmt.Errorf("%w: %w", supervisor.ErrNotExecuted, errno)
}

// forward hands a signal to the command: to its first process, which is what it
// would reach without berth, and to the whole group where a terminal would.
func (l *loop) forward(sig syscall.Signal) {
	if l.command.suspended && (sig == unix.SIGTSTP || sig == unix.SIGCONT) {
		l.log.Info("command continued")
		l.command.suspended = false
		sig = unix.SIGCONT
	}
	to := supervisor.First
	if signals.JobControl(sig) {
		to = supervisor.Group
	}
	l.send(sig, to)
}

// handOn sends an ending signal that comes again.
func (l *loop) handOn(e event) {
	if l.sequence.to == supervisor.Tree {
		e.to = supervisor.Tree
	}
	l.sendEnding(e.rewritten, e.to)
}

// sendEnding sends a signal of a sequence, or one that is handed on beside it.
func (l *loop) sendEnding(sig syscall.Signal, to supervisor.Scope) {
	switch {
	case l.facts.Command.Phase == machine.Over:
		to = supervisor.Tree
	case to == supervisor.Head && !slices.Contains(l.sequence.untold, sig):
		l.sequence.untold = append(l.sequence.untold, sig)
	}
	l.send(sig, to)
}

// tellRest has the sequence go to the whole tree: the first process has ended, and cannot
// see to the end of the others, or there is no time to wait for that.
func (l *loop) tellRest(event) {
	for _, sig := range l.sequence.untold {
		l.send(sig, supervisor.Rest)
	}
	l.sequence.to, l.sequence.untold = supervisor.Tree, nil
}

// send signals the command once it has started.
func (l *loop) send(sig syscall.Signal, to supervisor.Scope) {
	if !l.facts.Command.Started() {
		l.log.Debug("signal kept until the command has been started", "signal", signals.Name(sig))
		l.command.kept = append(l.command.kept, keptSignal{sig, to})
		return
	}
	l.log.Debug("signal sent", "signal", signals.Name(sig), "to", string(to))
	_ = l.guard.Signal(sig, to)
}

// noteSuspended is for Ctrl-Z. berth itself does not stop: it would miss its
// verifications. So the shell goes on waiting for it, and the user is told how
// to go on. A command that waits for the terminal is told of too, and goes on
// once it gets it.
func (l *loop) noteSuspended(wantsTerminal bool) {
	switch {
	case l.state == supervisor.Losing, l.facts.Command.Hook != "": // it is about to end, or will be killed in time
		return
	case wantsTerminal:
		l.log.Warn("command stopped until it has the terminal, the slot is still held; " +
			"bring berth to the foreground, or end it; with --pid-namespace the command cannot have the terminal")
		return
	}
	l.command.suspended = true
	l.log.Warn("command suspended, the slot is still held; press Ctrl-Z again to continue it, Ctrl-C to end it")
}

// freeze stops a command that runs in a slot of which nothing is known, if the user
// wants that.
func (l *loop) freeze() {
	if l.cfg.OnDoubt == supervisor.Freeze && !l.command.frozen {
		l.log.Warn("command frozen until the slot is verified again")
		l.command.frozen = true
		_ = l.guard.Freeze()
	}
}

// thaw lets a frozen command go on.
func (l *loop) thaw() {
	if l.command.frozen {
		l.log.Info("command goes on")
		l.command.frozen = false
		_ = l.guard.Thaw()
	}
}

// noteExit is for the end of the command's first process.
func (l *loop) noteExit(g supervisor.GuardEvent) {
	c := &l.facts.Command
	c.Phase, c.Status = machine.Over, g.Status
	c.ByItself = l.facts.Ending.Reason == ""
	c.AtTerminal = g.Terminal && supervisor.Interrupted(g.Status)
	if c.Hook != "" {
		l.noteHookExit()
		return
	}
	if g.Orphans {
		l.log.Error("the guard was killed, and the command with it")
	}
	l.log.Info("command ended", "status", supervisor.EndedStatus(g.Status))
}

// stopInOrder ends what the first process leaves behind, before the slot is given back, or
// a command whose berth was asked to step down.
func (l *loop) stopInOrder(e event) {
	if e.on == machine.Exited {
		l.log.Info("ending what the command has left running")
	}
	l.beginSequence(l.cfg.Stop, l.cfg.StopTo.Scope())
}

// stop begins the stop sequence with the signal that came.
func (l *loop) stop(e event) { l.beginSequence(l.cfg.Stop.Beginning(e.rewritten), e.to) }

// handOnSooner is for an ending signal while the loss sequence is under way: the
// command is killed no later than the stop sequence would.
func (l *loop) handOnSooner(e event) {
	if l.sequence.killsWithin(l.cfg.Stop.Duration()) {
		l.handOn(e)
		return
	}
	e.to = supervisor.Tree // as of the loss sequence
	l.stop(e)
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
		l.beginSequence(loss, supervisor.Tree)
		return
	}
	l.tellRest(e)
	if !l.facts.Command.Started() && loss.Duration() < l.sequence.steps.Duration() {
		// A command that has not started by then is killed no later than that. One that
		// does start would get all of the sequence from there on.
		if l.sequence.steps = loss; len(loss) > 1 {
			l.sendEnding(loss[0].Signal, supervisor.Tree)
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
func (l *loop) beginSequence(seq signals.Sequence, to supervisor.Scope) {
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

func (l *loop) kill() {
	l.sequence.killing = true
	l.tally.Step(unix.SIGKILL)
	_ = l.guard.Kill()
	l.silence.Reset(l.env.guardPatience)
}

// noteKilling is for a guard that has sent KILL to the whole tree. It is not its
// fault if that takes long: a process waits in the kernel, or may not be
// signalled. To kill the guard as well would not end that, for as long as it says
// that it is there.
func (l *loop) noteKilling() { l.silence.Reset(supervisor.KillingInterval + l.env.guardPatience) }

// noteLasting is for a process that KILL does not make go away.
func (l *loop) noteLasting(g supervisor.GuardEvent) {
	if g.Left {
		l.log.Error("KILL does not end a process; berth goes on once it has ended",
			"process", g.Pid, "about", g.About)
		return
	}
	l.log.Warn("a process is dead, but whoever traces it keeps it; nothing of it runs, so that it does not keep the slot",
		"process", g.Pid, "about", g.About)
}

// abandon kills a guard that does not answer in time.
func (l *loop) abandon() {
	l.log.Error("the guard does not answer; killing it and the command")
	l.guard.Abandon()
}

// treeDied is for the end of the command's last process.
func (l *loop) treeDied() {
	l.stepTimer.Stop()
	l.silence.Stop()
	l.hookTime.Stop()
	l.noteHookDeath()
	l.guard, l.guardEvents = l.hooks.spare, l.hooks.spareEvents // nil but after a hook
	l.hooks.spare, l.hooks.spareEvents = nil, nil
	l.facts.Command.Phase, l.facts.Command.Hook = machine.Absent, ""
	l.command.frozen = false
}
