// Package terminal gives the controlling terminal to the command ([Terminal.Offer]) and takes it back, as a shell does
// with its jobs (tcsetpgrp(3), credentials(7)), whatever the command's standard input is: a program that asks for a
// password opens /dev/tty. The command is in a process group of its own, so that it can be signalled as one; without
// the terminal's foreground it could neither read from it nor be interrupted from it.
//
// It knows process groups and their foreground. It must not know of locks, deadlines or orders; its owner tells it what
// happens to the command ([Terminal.Stopped]), and is told what to do ([Verdict]).
package terminal

import (
	"errors"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/guard/procfs"
	"berth/internal/tty"
)

// lookPause lies between two looks whether berth was brought to the foreground.
// Somebody who types does not notice it.
const lookPause = 100 * time.Millisecond

// state is who has the terminal, as far as this process has had a hand in it. The
// kernel alone knows what a shell has done since.
type state int

const (
	// ours, or somebody else's: berth's group may give it away if it has it.
	ours state = iota
	// theirs, the command's: its group was given the foreground.
	theirs
	// waiting: the command is stopped until berth's group has the foreground.
	waiting
)

// Terminal is the controlling terminal and who has it. One goroutine owns it. The zero
// value is a process without one.
type Terminal struct {
	env    *procfs.Env
	device device // nil: there is none
	owner  int    // berth's process group, 0 if it has no number here

	state    state
	look     <-chan time.Time // while waiting: when to look for the foreground
	watch    <-chan time.Time // while theirs: when to look whether it has gone
	pipeline bool             // the rest of berth's group is stopped too, and goes on with the command
	settings *unix.Termios    // from before the command had the terminal
}

// device is a tty.Device.
type device interface {
	Foreground() (group int)
	SetForeground(group int) error
	Settings() *unix.Termios
	SetSettings(*unix.Termios) error
}

// Verdict is what becomes of a command that was stopped.
type Verdict int

const (
	// Nothing: the stop does not concern the terminal, or it is waited for already.
	Nothing Verdict = iota
	// Continue: the command can have the terminal and is to be continued, through
	// Continued.
	Continue
	// Suspended: the terminal stopped the command, which stays so.
	Suspended
	// Waits: the command stays stopped until it can have the terminal.
	Waits
)

// New opens the terminal for the guard of a supervisor whose process group is owner.
func New(env *procfs.Env, owner int) *Terminal {
	t := &Terminal{env: env, owner: owner}
	if device := tty.Open(); device != nil {
		t.device = device
	}
	return t
}

// UsedFromBackground reports whether the signal is how a terminal stops a process that
// uses it from the background.
func UsedFromBackground(sig syscall.Signal) bool { return sig == unix.SIGTTIN || sig == unix.SIGTTOU }

// Present reports whether there is a terminal that the command can be given.
func (t *Terminal) Present() bool { return t.device != nil && t.owner != 0 }

// Offer gives the command the terminal before it asks for it, by using it, if
// nobody else is in berth's group: the pager that reads what the command writes,
// or the script that runs berth, would lose it.
func (t *Terminal) Offer(group int) {
	if t.Present() && t.inReach(group) && t.alone() {
		t.give(group)
	}
}

// Stopped is for a command whose first process, the leader of group, was stopped by
// the signal.
func (t *Terminal) Stopped(group int, sig syscall.Signal) Verdict {
	switch {
	case UsedFromBackground(sig) && !t.passedOn(group):
		return t.wait(group)
	case t.state == theirs, sig == unix.SIGTSTP && t.device != nil:
		t.pipeline = t.state != theirs
		t.takeBack()
		return Suspended
	}
	return Nothing
}

// PipelineStopped is for a signal by which the terminal has stopped berth's group,
// because a process there has used it from the background: less behind a psql that has
// asked for a password, which would stay stopped, while the slot is held. It reports
// whether the group has the terminal and goes on. Otherwise the command is to be stopped
// like the rest of its pipeline.
func (t *Terminal) PipelineStopped() (goesOn bool) {
	if !t.Present() {
		return false
	}
	t.pipeline = true
	t.takeBack()
	if goesOn = t.device.Foreground() == t.owner; goesOn {
		t.Wake()
	}
	return goesOn
}

// wait is for a command that is stopped because it used the terminal from the
// background. That it waits is said once.
func (t *Terminal) wait(group int) Verdict {
	switch {
	case t.state == waiting:
		return Nothing
	case t.Look(group):
		return Continue
	}
	return Waits
}

// Retry receives while the command waits, when it is time to Look.
func (t *Terminal) Retry() <-chan time.Time { return t.look }

// Look reports whether the command can have the terminal that it used: at once if
// berth has the foreground by now. It is then to be continued. A shell's fg does not
// tell a job that was running, so there is nothing to wait for but the time to look
// again. group is 0 if the command's first process has ended.
func (t *Terminal) Look(group int) bool {
	t.look = nil
	if group == 0 || !t.Present() {
		t.state = ours
		return false
	}
	if t.give(group) {
		return true
	}
	t.state, t.look = waiting, time.After(lookPause)
	return false
}

// Continued is for a command that is about to be continued. What then uses the
// terminal asks again, whichever process it is. Wake is to follow.
func (t *Terminal) Continued(group int) {
	t.look = nil
	if t.state != theirs {
		t.state = ours
	}
	t.Offer(group)
}

// Wake continues the rest of berth's group where it was stopped with the command: the
// key that stopped the command through berth has stopped its pipeline too. berth itself
// gets no CONT: it does not stop, and would hand it on to the command.
func (t *Terminal) Wake() {
	if t.pipeline && t.owner != 0 {
		others, err := t.others()
		for _, p := range others {
			_ = t.env.Signal(p, unix.SIGCONT)
		}
		if err != nil { // a CONT too many does less harm than a pipeline that hangs
			_ = unix.Kill(-t.owner, unix.SIGCONT)
		}
	}
	t.pipeline = false
}

// Ended is for a command whose first process has ended, killed or not. It reports
// whether the command had the terminal.
func (t *Terminal) Ended(killed bool) (had bool) {
	had = t.takeBack()
	t.state, t.look = ours, nil
	t.Wake()
	if killed {
		t.restore()
	}
	return had
}

// alone reports whether berth is the only one of its process group, as far as is
// known. The others of a pipeline are there before a slot can be won.
func (t *Terminal) alone() bool {
	others, err := t.others()
	return err == nil && len(others) == 0
}

// others returns the living processes of berth's group but berth itself, as far
// as /proc shows them.
func (t *Terminal) others() (others []procfs.Process, err error) {
	table, err := t.env.Table()
	if err != nil {
		return nil, err
	}
	delete(table, unix.Getppid())
	for _, p := range table {
		if p.Group == t.owner && !p.Dead() {
			others = append(others, p)
		}
	}
	return others, nil
}

// inReach reports whether berth's group or already the command's is the foreground.
// Otherwise berth is in the background: the terminal is somebody else's.
func (t *Terminal) inReach(group int) bool {
	foreground := t.device.Foreground()
	return foreground == t.owner || foreground == group
}

// give makes the command's group the foreground if berth's own is, and reports
// whether it has it now.
func (t *Terminal) give(group int) bool {
	if !t.inReach(group) {
		return false
	}
	if t.settings == nil {
		t.settings = t.device.Settings()
	}
	if t.device.SetForeground(group) != nil {
		return false
	}
	t.state, t.watch = theirs, time.After(hangupPause)
	return true
}

// passedOn reports whether the group was given the foreground and a job of the
// command has it: a shell in the command gave it away, and died before it took
// it back. The group is then stopped whenever it uses the terminal, however often
// it is continued.
func (t *Terminal) passedOn(group int) bool { return t.has() && t.device.Foreground() != group }

// has reports whether the command was given the foreground and has it still: its
// group, one of its jobs, or one that is dead. A shell that stopped berth has
// taken the terminal, and knows nothing of the command.
func (t *Terminal) has() bool {
	if t.state != theirs {
		return false
	}
	foreground := t.device.Foreground()
	return foreground >= 0 &&
		(slices.ContainsFunc(t.env.Descendants(nil), func(p procfs.Process) bool { return p.Group == foreground }) ||
			errors.Is(unix.Kill(-foreground, 0), unix.ESRCH))
}

// takeBack gives the foreground back to berth's own group, and reports whether
// the command had it.
func (t *Terminal) takeBack() bool {
	had := t.has()
	if had {
		_ = t.device.SetForeground(t.owner) // fails if the terminal is gone
	}
	if t.state == theirs {
		t.state = ours
	}
	return had
}

// restore puts the settings back that a killed command may have left behind,
// unless the terminal is somebody else's by now.
func (t *Terminal) restore() {
	if t.settings != nil && t.device.Foreground() == t.owner {
		_ = t.device.SetSettings(t.settings)
	}
}
