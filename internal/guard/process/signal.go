package process

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/guard/terminal"
	"berth/internal/guard/wire"
	"berth/signals"
)

// deadly are the signals that would end or stop the guard. Go catches all others
// and does nothing (package os/signal, "Default behavior of signals in Go
// programs"); to ask for one takes two switches between threads.
var deadly = []os.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGABRT, unix.SIGTERM,
	unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU,
}

// dropSignals has the guard receive and drop them. Signals are the supervisor's
// to judge, also those that somebody sends to every process of a unit.
func dropSignals() {
	var received []os.Signal
	for _, sig := range deadly {
		if !signal.Ignored(sig) { // the command inherits an inherited ignore of HUP and INT
			received = append(received, sig)
		}
	}
	// One that came while this process was forked is pending, and Notify unblocks
	// signals before it handles them. Ignored, it is forgotten.
	signal.Ignore(unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
	signal.Notify(make(chan os.Signal, 1), received...) // nobody reads it
}

// signal sends a signal to part of the command.
func (g *guard) signal(sig syscall.Signal, to wire.Scope) {
	switch {
	case to == wire.Tree:
		g.noteRefused(g.tree.Signal(sig, func(int) bool { return true }))
	case to == wire.Head:
		g.noteRefused(g.tree.Signal(sig, func(pid int) bool { return pid == g.first }))
	case to == wire.Rest:
		g.noteRefused(g.tree.Signal(sig, func(pid int) bool { return pid != g.first }))
	case g.first == 0:
	case to == wire.Group && sig == unix.SIGCONT:
		g.continueGroup()
	case to == wire.Group && terminal.UsedFromBackground(sig) && g.terminal.PipelineStopped(): // the command hears nothing
	case to == wire.Group && slices.Contains(signals.KeyboardStops(), sig) && g.tree.HoldBack(sig): // until the thaw
	case to == wire.Group:
		_ = unix.Kill(-g.first, sig)
	default:
		_ = unix.Kill(g.first, sig)
	}
}

// noteStopped is for the command's first process, which was stopped.
func (g *guard) noteStopped(sig syscall.Signal) {
	if sig == unix.SIGSTOP && g.tree.IsFrozen() {
		return // by the guard
	}
	switch g.terminal.Stopped(g.first, sig) {
	case terminal.Continue:
		g.continueGroup()
	case terminal.Suspended:
		g.tell(wire.Event{Kind: wire.Suspended})
	case terminal.Waits:
		g.tell(wire.Event{Kind: wire.Suspended, Terminal: true})
	}
}

// noteHangup tells that the terminal has gone which the command had, unless berth was started to outlive it (nohup(1)).
func (g *guard) noteHangup() {
	if g.terminal.HungUp() && !signal.Ignored(unix.SIGHUP) {
		g.tell(wire.Event{Kind: wire.HungUp})
	}
}

// continueGroup hands a CONT on to the command's group, and continues the rest of
// berth's own group after it: what that does at the terminal may concern the
// command.
func (g *guard) continueGroup() {
	g.terminal.Continued(g.first)
	if g.tree.IsFrozen() {
		g.tree.ContinueAtThaw()
	} else {
		_ = unix.Kill(-g.first, unix.SIGCONT)
	}
	g.terminal.Wake()
}

// kill sends KILL to what there is of the tree, and sees to it that this
// happens again until nothing is left.
func (g *guard) kill() {
	if g.phase == idle || g.phase == over {
		return
	}
	overdue := g.overdue()
	g.killing = true
	if g.phase == forking && g.forker.decide() {
		if overdue {
			g.tell(wire.Event{Kind: wire.Overdue})
		}
		g.noteForked(forked{err: errTooLate})
		return
	}
	g.noteRefused(g.tree.Kill()) // whether it worked is seen by reaping
	if overdue {
		g.tell(wire.Event{Kind: wire.Overdue})
	}
	if g.killOrdered || !g.killTold.IsZero() && time.Since(g.killTold) >= wire.KillingInterval/2 {
		g.killOrdered, g.killTold = false, time.Now()
		g.tell(wire.Event{Kind: wire.Killing})
	}
	g.noteLasting()
}

// noteRefused tells once of a process that may not be signalled; 0 is none.
func (g *guard) noteRefused(pid int) {
	if pid != 0 && !g.refusalTold {
		g.refusalTold = true
		g.tell(wire.Event{Kind: wire.Refused, Pid: pid})
	}
}
