package loop

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"berth/internal/boottime"
	"berth/internal/guard/wire"
	"berth/lock"
	"berth/signals"
	"berth/supervisor"
	"berth/supervisor/calls"
	"berth/supervisor/machine"
)

// hangupPatience is how much later than HUP its terminal may go. One that is
// there for longer was not what HUP was about: it told the command to reload.
const hangupPatience = time.Second

// event is something that happened, with what belongs to it.
type event struct {
	on        machine.Event // "": nothing that the machine has to know
	err       error
	held      lock.Held
	since     boottime.Instant // when the verification that succeeded began
	guard     wire.Event
	sig       syscall.Signal // as received
	rewritten syscall.Signal // as rewritten
	to        wire.Scope
	request   lock.Request
}

// errOverdue is the loss of a slot whose guard had to act by itself, because this
// process was stopped, or too slow.
var errOverdue = fmt.Errorf("the deadline passed without a verification, the guard killed the command: %w",
	lock.ErrLost)

// receive waits for the next event.
func (l *loop) receive() event {
	// What the guard has told comes first: a command that has ended by itself was
	// not ended by a loss that became known later.
	select {
	case g, open := <-l.guardEvents:
		return l.told(g, open)
	default:
	}
	select {
	case r := <-l.calls.Results:
		return l.returned(r)
	case err := <-l.calls.Doubts:
		if !l.facts.Doubted {
			return event{on: machine.LossReported, err: err}
		}
	case sig := <-l.cfg.Signals:
		return l.signalled(sig)
	case g, open := <-l.guardEvents:
		return l.told(g, open)
	case h := <-l.cfg.Lock.Handovers():
		l.inherit(h)
	case r := <-l.cfg.Lock.Requests():
		return l.asked(r)
	case r := <-l.cfg.Asked:
		return l.asked(r)
	case r := <-l.reloads:
		l.noteReloaded(r)
	case <-l.lostC:
		cause := l.held.Cause()
		if l.lostC = nil; cause == nil { // reclaimed before this loop came to it
			l.lostC = l.held.Lost()
			break
		}
		return event{on: machine.LossReported, err: cause}
	case <-l.lossTimer.C:
		if l.cfg.Clock.Passed(l.lossAt()) {
			return event{on: machine.LossDue, err: machine.ErrNotVerified}
		}
	case <-l.verifyTimer.C:
		l.verify()
	case <-l.pauseTimer.C:
		return event{on: machine.PauseOver}
	case <-l.stepTimer.C:
		l.step()
	case <-l.hookTime.C:
		l.killHook()
	case v := <-l.health.checks.Verdicts():
		return l.noteChecked(v)
	case <-l.health.due.C:
		l.beginCheck()
	case <-l.runTime.C:
		return l.noteRunOver()
	case <-l.overtime.C:
		return event{on: machine.Stuck}
	case <-l.timeout.C:
		l.noteLate()
		return event{on: machine.TimedOut}
	case <-l.hangup.C:
		l.hup = l.hungUp()
	case <-l.beats():
		l.cfg.Observer.Beat()
	}
	return event{}
}

// beats tells when the observer is to be told that this goroutine is there.
func (l *loop) beats() <-chan time.Time {
	if l.beat == nil {
		return nil
	}
	return l.beat.C
}

// returned notes what a call of the lock's methods returned.
func (l *loop) returned(r calls.Result) event {
	l.calls.Returned()
	e := event{on: r.On, err: r.Err, held: r.Held, since: r.Since}
	switch e.on {
	case machine.NotConnected, machine.NotAcquired, machine.NotWoken:
		l.facts.LastErr = e.err
	case machine.Verified, machine.Unverified:
		l.tally.Verified(time.Since(l.began), e.err)
	case machine.Released:
		l.noteReleased(e.err)
	}
	return e
}

// told notes what the guard tells, or its end.
func (l *loop) told(g wire.Event, open bool) event {
	switch {
	case !open && l.facts.Command.Phase != machine.Absent: // it had died before it got the order to start
		return l.afterCheck(event{on: machine.TreeDied,
			guard: wire.Event{Kind: wire.Dead, Orphans: true}})
	case !open:
		l.guard, l.guardEvents = nil, nil
		return event{}
	}
	switch g.Kind {
	case wire.Unusable:
		return event{on: machine.GuardUnusable, err: g.Err}
	case wire.Accepted:
		l.noteAccepted()
	case wire.Started:
		l.noteStarted(g.Pid)
		return event{on: machine.Started}
	case wire.NotStarted:
		l.noteNotStarted(g.Errno)
	case wire.Suspended:
		l.noteSuspended(g.Terminal)
	case wire.HungUp: // as if the kernel had told berth too
		if l.facts.Ending.Reason != machine.Told {
			return l.signalled(syscall.SIGHUP)
		}
	case wire.Exited:
		if c := l.facts.Command; g.Orphans && !c.Started() && c.Phase != machine.Accepted {
			break // nothing was started; Dead comes next
		}
		l.noteExit(g)
		return event{on: machine.Exited, guard: g}
	case wire.Refused: // berth cannot end it, such as sudo(8) under a user's berth
		l.log.Error("a process may not be signalled (EPERM); the slot is not given back before it has ended",
			"process", g.Pid)
	case wire.Silent:
		l.log.Error("the guard does not answer; killing it and the command")
	case wire.Lasting:
		l.noteLasting(g)
	case wire.Overdue:
		return event{on: machine.Overdue, err: errOverdue}
	case wire.Halted:
		l.log.Warn("the guard was stopped; it goes on, because it keeps the command's deadline")
	case wire.UserChanged:
		l.log.Warn("the command has changed its user, and would outlive berth and its guard " +
			"if both were killed; start it with --user instead, or with --pid-namespace, " +
			"or have berth in a control group that is killed as a whole")
	case wire.Dead:
		return l.afterCheck(event{on: machine.TreeDied, guard: g})
	}
	return event{}
}

// signalled notes a signal: it ends berth, or it is for the command.
func (l *loop) signalled(s os.Signal) event {
	sig, ok := s.(syscall.Signal)
	if !ok {
		return event{}
	}
	rewritten := l.cfg.Rewrites.Apply(sig)
	if rewritten == 0 {
		l.log.Debug("signal dropped by --rewrite", "signal", signals.Name(sig))
		return event{}
	}
	absent, hungUp := l.facts.Command.Phase == machine.Absent || l.facts.Command.Hook != "", false
	if sig == syscall.SIGHUP && l.cfg.Terminal != nil {
		l.hup = true
		l.hangup.Reset(hangupPatience)
		hungUp = absent || l.hungUp()
	}
	switch {
	case signals.Ends(sig) || signals.Ends(rewritten) || hungUp:
		if l.state != supervisor.Quitting {
			l.log.Info("told to end", "signal", signals.Name(sig))
		}
		return event{on: machine.ToldToEnd, sig: sig, rewritten: rewritten, to: l.reach(sig, rewritten)}
	case absent:
		l.noteSignal(sig)
	default:
		l.forward(rewritten)
	}
	return event{}
}

// reach returns whom a signal is for that ends the command. A terminal sends to a whole
// process group, INT and QUIT for its keys and HUP at its end: many programs, such as
// bash, rely on it. Whether the keys were pressed is not known; what was rewritten is no
// key any more.
func (l *loop) reach(sig, rewritten syscall.Signal) wire.Scope {
	if l.cfg.Terminal != nil && sig != syscall.SIGTERM && sig == rewritten {
		return wire.Tree
	}
	return l.cfg.StopTo.Scope()
}

// hungUp reports whether berth was told that its terminal has gone, and it has.
// The kernel can tell a moment before; and a shell that exits may leave a job
// alone, to which the terminal's end means nothing.
func (l *loop) hungUp() bool { return l.hup && !l.cfg.Terminal() }
