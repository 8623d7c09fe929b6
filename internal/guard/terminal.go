package guard

import (
	"syscall"

	"golang.org/x/sys/unix"

	"berth/internal/tty"
)

// terminal is the controlling terminal, whatever the command's standard input
// is: who asks for a password opens /dev/tty. The command is in a process group
// of its own, so that it can be signalled as one; without the terminal's
// foreground it could neither read from it nor be interrupted from it. Handing
// the foreground over and taking it back is what a shell does with its jobs
// (tcsetpgrp(3), credentials(7)).
type terminal struct {
	owner    int  // process group of the supervisor, 0 if it has no number here
	fd       int  // -1: there is none
	given    bool // the command has the foreground
	asleep   bool // who else is in berth's group may be stopped, as the command was
	settings *unix.Termios
}

// newTerminal opens the terminal, if the guard has one.
func newTerminal() *terminal {
	t := &terminal{fd: -1}
	if fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0); err == nil {
		t.fd = fd
	}
	if unix.Getppid() == 0 {
		return t // in a PID namespace of our own, berth's process group has no number
	}
	if group, err := unix.Getpgid(unix.Getppid()); err == nil {
		t.owner = group
	}
	return t
}

// present reports whether there is a terminal that the command can be given.
func (t *terminal) present() bool { return t.fd >= 0 && t.owner != 0 }

// offer gives the command the terminal before it asks for it, by using it, if
// nobody else is in berth's group: the pager that reads what the command writes,
// or the script that runs berth, would lose it.
func (t *terminal) offer(group int) {
	if t.present() && t.alone() {
		t.give(group)
	}
}

// alone reports whether berth is the only one of its process group, as far as is
// known. The others of a pipeline are there before a slot can be won.
func (t *terminal) alone() bool {
	table, err := processTable()
	if err != nil {
		return false
	}
	delete(table, unix.Getppid())
	for _, p := range table {
		if p.group == t.owner && p.state != 'Z' {
			return false
		}
	}
	return true
}

// give makes the command's group the foreground if berth's own is, and reports
// whether it has it now. In the background it does nothing: the terminal is
// somebody else's.
func (t *terminal) give(group int) bool {
	if !t.present() || t.given {
		return t.given
	}
	foreground, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil || foreground != t.owner {
		return false
	}
	if t.settings == nil {
		t.settings, _ = unix.IoctlGetTermios(t.fd, unix.TCGETS)
	}
	t.given = t.setForeground(group) == nil
	return t.given
}

// passedOn reports whether the group was given the foreground and has it no
// more: a shell in the command gave it to a job, and died before it took it back.
// The group is then stopped whenever it uses the terminal, however often it is
// continued.
func (t *terminal) passedOn(group int) bool {
	if !t.given {
		return false
	}
	foreground, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err == nil && foreground != group
}

// takeBack gives the foreground back to berth's own group.
func (t *terminal) takeBack() {
	if t.given {
		t.given = false
		_ = t.setForeground(t.owner) // fails if the terminal is gone
	}
}

// restore puts the settings back that a killed command may have left behind.
func (t *terminal) restore() {
	if t.settings == nil {
		return
	}
	_ = tty.WithoutTTOU(func() error { return unix.IoctlSetTermios(t.fd, unix.TCSETS, t.settings) })
}

// wake continues who else is in berth's group: the key that stopped the command
// through berth has stopped the rest of its pipeline too. berth gets the CONT as
// well, and hands it on, which is why this happens once.
func (t *terminal) wake() {
	if t.asleep && t.owner != 0 {
		_ = unix.Kill(-t.owner, unix.SIGCONT)
	}
	t.asleep = false
}

func (t *terminal) setForeground(group int) error {
	return tty.WithoutTTOU(func() error { return unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) })
}

// stoppedForTerminal reports whether the signal is how a terminal stops who
// uses it from the background.
func stoppedForTerminal(sig syscall.Signal) bool {
	return sig == unix.SIGTTIN || sig == unix.SIGTTOU
}
