package loop

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/guard/wire"
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
	to  wire.Scope
}

// noteAccepted is for a guard that has begun to start the command. That may
// take long; what ends it is a loss or a signal.
func (l *loop) noteAccepted() {
	l.facts.Guarded = true
	l.facts.Command.Phase = machine.Accepted
}

// noteStarted hands on what came while the command was being started.
func (l *loop) noteStarted(pid int) {
	l.facts.Command.Phase = machine.Alive
	if l.facts.Command.Hook != "" {
		l.log.Info("hook started", "hook", string(l.facts.Command.Hook), "process", pid)
	} else {
		if again := l.facts.Use == machine.HasRun; again {
			l.tally.Started(time.Since(l.command.began), true)
		} else {
			l.tally.Started(time.Since(l.since), false)
		}
		l.facts.GuardDeaths, l.facts.Use = 0, machine.HasRun
		if pid != 0 {
			l.command.pid = pid
			l.log = l.log.With("pid", pid)
		}
		l.log.Info("slot held, command started", "berth_pid", os.Getpid())
		l.health.started = time.Now()
		if l.cfg.MaxRun > 0 {
			l.runTime.Reset(l.cfg.MaxRun)
		}
	}
	for _, kept := range l.command.kept {
		l.send(kept.sig, kept.to)
	}
	l.command.kept = nil
}

func (l *loop) noteNotStarted(errno syscall.Errno) {
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
	to := wire.First
	if signals.JobControl(sig) {
		to = wire.Group
	}
	l.send(sig, to)
}

// send signals the command once it has started.
func (l *loop) send(sig syscall.Signal, to wire.Scope) {
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

// freeze stops a command that runs in a slot of which nothing is known.
func (l *loop) freeze() {
	l.log.Warn("command frozen until the slot is verified again")
	l.command.frozen = true
	_ = l.guard.Freeze()
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
func (l *loop) noteExit(g wire.Event) {
	c := &l.facts.Command
	c.Phase, c.Status = machine.Over, g.Status
	c.ByItself = l.facts.Ending.Reason == ""
	c.AtTerminal = g.Terminal && supervisor.Interrupted(g.Status)
	if c.Hook != "" {
		l.noteHookExit()
		return
	}
	if g.Orphans {
		l.facts.GuardDeaths, l.facts.Use = 0, machine.HasRun // or it may have run, and the guard died before it told
		l.log.Error("the guard was killed, and the command with it")
	}
	l.log.Info("command ended", "status", supervisor.EndedStatus(g.Status))
}

func (l *loop) kill() {
	if l.health.dead != nil { // nothing but a check is left, which is being killed
		return
	}
	l.sequence.killing = true
	l.tally.Step(unix.SIGKILL)
	_ = l.guard.Kill()
}

// noteLasting is for a process that KILL does not make go away.
func (l *loop) noteLasting(g wire.Event) {
	if g.Left {
		l.log.Error("KILL does not end a process; berth goes on once it has ended",
			"process", g.Pid, "about", g.About)
		return
	}
	l.log.Warn("a process is dead, but its tracer keeps it; nothing of it runs, so it does not keep the slot",
		"process", g.Pid, "about", g.About)
}

// treeDied is for the end of the command's last process.
func (l *loop) treeDied() {
	l.stepTimer.Stop()
	l.hookTime.Stop()
	l.noteHookDeath()
	l.guard, l.guardEvents = l.hooks.spare, l.hooks.spareEvents // nil but after a hook
	l.hooks.spare, l.hooks.spareEvents = nil, nil
	l.facts.Command.Phase, l.facts.Command.Hook = machine.Absent, ""
	l.command.frozen = false
}
