package simulation

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/supervisor"
	"berth/test/simulation/history"
)

// command is a command's tree. It runs for as long as it wants to, ends when it is told to or is stubborn, and dies when
// it is killed. world.mu guards it.
type command struct {
	of    *guard
	span  *history.Span
	timer *time.Timer // of its end
	dead  bool
	dying bool
	cut   bool // it was told to end, or killed
}

// newCommand starts a command. The caller has world.mu.
func newCommand(g *guard, slot int, term uint64) *command {
	w := g.host.w
	c := &command{of: g, span: w.history.Begin(w.now(), history.Span{Host: g.host.name, Slot: slot, Term: term})}
	g.host.started++
	w.noteStart(slot)
	if term != 0 && term == g.berth.term && g.host.cfg.Restart == supervisor.Never {
		w.history.Violate(w.now(), g.host.name, "the command of term %d is started a second time", term)
	}
	g.berth.term = term
	run := time.Duration(w.random.ExpFloat64()*float64(g.host.cfg.Run)) + time.Millisecond
	if w.final {
		run = min(run, 2*time.Second)
	}
	c.timer = w.later(run, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		c.finish("by itself", 0)
	})
	w.step(g.task, "start")
	return c
}

// finish is for a tree that has ended, with that status of its first process. The caller has world.mu.
func (c *command) finish(why string, status syscall.WaitStatus) {
	if c.dead {
		return
	}
	c.end(why)
	c.of.exits <- status
}

// end is for a tree whose guard does not learn of its end. The caller has world.mu.
func (c *command) end(why string) {
	if !c.dead {
		if why != "by itself" {
			c.of.host.w.noteCut(c, why)
		}
		c.dead = true
		c.timer.Stop()
		c.of.host.w.history.End(c.of.host.w.now(), c.span, why)
		c.of.host.w.noteDeath(c, why)
	}
}

// endSoon has the tree end in a moment. The caller has world.mu.
func (c *command) endSoon(why string, status syscall.WaitStatus) {
	w := c.of.host.w
	if why != "by itself" {
		w.noteCut(c, why)
	}
	w.later(50*time.Microsecond+time.Duration(w.random.Int64N(int64(3*time.Millisecond))), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		c.finish(why, status)
	})
}

// signal is for a signal of a sequence. The caller has world.mu.
func (c *command) signal(sig syscall.Signal) {
	c.of.host.w.noteCut(c, sig.String())
	if sig != unix.SIGTERM || c.of.host.cfg.Stubborn || c.dying {
		return
	}
	c.dying = true
	w := c.of.host.w
	w.later(time.Duration(w.random.Int64N(int64(300*time.Millisecond))), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		c.finish("by TERM", syscall.WaitStatus(unix.SIGTERM))
	})
}
