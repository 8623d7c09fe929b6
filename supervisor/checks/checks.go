// Package checks runs health checks beside the supervisor's loop, one at a time:
//
//	c := checks.New(run)
//	err := c.Begin(start, true)
//	verdict := <-c.Verdicts() // then, before anything else:
//	counts := c.Ended()
//
// It knows when the tree of a check is dead, and has the command's guard see that. It knows neither states nor what
// follows from a verdict, and judges nothing.
package checks

import (
	"context"
	"os"
	"slices"
	"time"

	"berth/internal/boottime"
	"berth/supervisor"
)

// Run runs a check once, see supervisor.Health.
type Run = func(ctx context.Context, start supervisor.Start, renewed <-chan boottime.Instant) supervisor.Verdict

// Checks are those of one supervisor. All of it belongs to one goroutine. Use New.
type Checks struct {
	run    Run
	beside beside
	now    *check // the one whose tree may be alive, nil: none
}

// check is one that was begun.
type check struct {
	broken  bool // off: its verdict does not count
	cancel  context.CancelFunc
	mark    *os.File              // see beside; nil: it is of no slot
	renewed chan boottime.Instant // has room for one
	done    chan supervisor.Verdict
}

// New returns checks that are made by run; nil: there are none.
func New(run Run) *Checks { return &Checks{run: run} }

// Attach is for another start of the command. It returns what the command's guard gets as supervisor.Start.Beside.
func (c *Checks) Attach() *os.File {
	if c.run == nil {
		return nil
	}
	c.beside.close()
	c.beside = newBeside()
	return c.beside.file
}

// Begin begins a check while none is under way. One of the command shows its guard that something runs beside it.
func (c *Checks) Begin(start supervisor.Start, ofCommand bool) error {
	now := &check{renewed: make(chan boottime.Instant, 1), done: make(chan supervisor.Verdict, 1)}
	if ofCommand {
		mark, err := c.beside.begin()
		if err != nil {
			return err
		}
		now.mark, start.Files = mark, append(slices.Clone(start.Files), mark)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.now, now.cancel = now, cancel
	run := c.run
	go func() { now.done <- run(ctx, start, now.renewed) }()
	return nil
}

// UnderWay reports whether the tree of a check may be alive.
func (c *Checks) UnderWay() bool { return c.now != nil }

// Verdicts receives what the check under way has found out, once its tree is dead. Ended comes next.
func (c *Checks) Verdicts() <-chan supervisor.Verdict {
	if c.now == nil {
		return nil
	}
	return c.now.done
}

// Ended gives up what the check had that is dead, and reports whether its verdict counts.
func (c *Checks) Ended() (counts bool) {
	counts = !c.now.broken
	c.now.cancel()
	if c.now.mark != nil {
		c.now.mark.Close()
	}
	c.now = nil
	return counts
}

// BreakOff has the check under way killed. Its verdict will come all the same, and does not count.
func (c *Checks) BreakOff() {
	if c.now != nil {
		c.now.broken = true
		c.now.cancel()
	}
}

// Renew tells the check's guard of the slot's new deadline.
func (c *Checks) Renew(deadline boottime.Instant) {
	if c.now == nil {
		return
	}
	select {
	case <-c.now.renewed: // nobody has read it yet
	default:
	}
	c.now.renewed <- deadline
}

// Close has the check under way killed, and reports whether it is dead within patience.
func (c *Checks) Close(patience time.Duration) (dead bool) {
	c.beside.close()
	if c.BreakOff(); c.now == nil {
		return true
	}
	select {
	case <-c.Verdicts():
		c.Ended()
	case <-time.After(patience):
	}
	return c.now == nil
}
