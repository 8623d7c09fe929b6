package guard

import (
	"errors"
	"slices"
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

	disturbed bool // asleep because one of them used the terminal from the background
}

// newTerminal opens the terminal, if this process has one.
func newTerminal(owner int) *terminal {
	t := &terminal{owner: owner, fd: -1}
	if fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0); err == nil {
		t.fd = fd
	}
	return t
}

// groupOfParent returns the supervisor's process group as a guard sees it.
func groupOfParent() int {
	if unix.Getppid() == 0 {
		return 0 // in a PID namespace of our own, it has no number
	}
	group, err := unix.Getpgid(unix.Getppid())
	if err != nil {
		return 0
	}
	return group
}

// settingsOfOurs returns the settings of the terminal that this process's group
// has the foreground of, nil if there is none.
func settingsOfOurs() *unix.Termios {
	t := newTerminal(unix.Getpgrp())
	if t.fd < 0 {
		return nil
	}
	defer unix.Close(t.fd)
	if foreground, err := t.foreground(); err != nil || foreground != t.owner {
		return nil
	}
	settings, _ := unix.IoctlGetTermios(t.fd, unix.TCGETS) // nil if it fails
	return settings
}

// takeBackFromDead takes the terminal back where this process is the supervisor
// of a guard that was killed and has left the foreground to a dead group: no key
// would reach anybody, and the next command could not be given the terminal. The
// settings are those from before the command was started.
func takeBackFromDead(settings *unix.Termios) {
	t := newTerminal(unix.Getpgrp())
	if t.fd < 0 {
		return
	}
	defer unix.Close(t.fd)
	t.given, t.settings = true, settings // it may have been
	if t.takeBack() {
		t.restore()
	}
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
	others, err := t.others()
	return err == nil && len(others) == 0
}

// others returns the living processes of berth's group but berth itself, as far
// as /proc shows them.
func (t *terminal) others() (others []process, err error) {
	table, err := processTable()
	if err != nil {
		return nil, err
	}
	delete(table, unix.Getppid())
	for _, p := range table {
		if p.group == t.owner && !p.dead() {
			others = append(others, p)
		}
	}
	return others, nil
}

// give makes the command's group the foreground if berth's own is, and reports
// whether it has it now. In the background it does nothing: the terminal is
// somebody else's.
func (t *terminal) give(group int) bool {
	if !t.present() {
		return false
	}
	foreground, err := t.foreground()
	if err != nil || foreground != t.owner {
		return err == nil && foreground == group
	}
	if t.settings == nil {
		t.settings, _ = unix.IoctlGetTermios(t.fd, unix.TCGETS)
	}
	t.given = t.setForeground(group) == nil
	return t.given
}

// passedOn reports whether the group was given the foreground and a job of the
// command has it: a shell in the command gave it away, and died before it took
// it back. The group is then stopped whenever it uses the terminal, however often
// it is continued.
func (t *terminal) passedOn(group int) bool {
	if !t.has() {
		return false
	}
	foreground, err := t.foreground()
	return err == nil && foreground != group
}

// has reports whether the command was given the foreground and has it still: its
// group, one of its jobs, or one that is dead. A shell that stopped berth has
// taken the terminal, and knows nothing of the command.
func (t *terminal) has() bool {
	if !t.given {
		return false
	}
	foreground, err := t.foreground()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(descendants(nil), func(p process) bool { return p.group == foreground }) ||
		errors.Is(unix.Kill(-foreground, 0), unix.ESRCH)
}

// takeBack gives the foreground back to berth's own group, and reports whether
// the command had it.
func (t *terminal) takeBack() bool {
	had := t.has()
	if had {
		_ = t.setForeground(t.owner) // fails if the terminal is gone
	}
	t.given = false
	return had
}

// restore puts the settings back that a killed command may have left behind,
// unless the terminal is somebody else's by now.
func (t *terminal) restore() {
	if foreground, err := t.foreground(); t.settings == nil || err != nil || foreground != t.owner {
		return
	}
	_ = tty.WithoutTTOU(func() error { return unix.IoctlSetTermios(t.fd, unix.TCSETS, t.settings) })
}

// wake continues who else is in berth's group: the key that stopped the command
// through berth has stopped the rest of its pipeline too. berth itself gets no
// CONT: it does not stop, and would hand it on to the command.
func (t *terminal) wake() {
	if t.asleep && t.owner != 0 {
		others, err := t.others()
		for _, p := range others {
			_ = signalProcess(p, unix.SIGCONT)
		}
		if err != nil { // a CONT too many does less harm than a pipeline that hangs
			_ = unix.Kill(-t.owner, unix.SIGCONT)
		}
	}
	t.asleep, t.disturbed = false, false
}

// disturb notes that the terminal has stopped who is in berth's group. All of
// them go on once the group has it.
func (t *terminal) disturb() { t.asleep, t.disturbed = true, true }

// regain reports whether berth's own group is the foreground, and makes it so if
// the command was: it is the turn of who asked last.
func (t *terminal) regain() bool {
	t.takeBack()
	foreground, err := t.foreground()
	return err == nil && foreground == t.owner
}

func (t *terminal) foreground() (group int, err error) {
	return unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
}

func (t *terminal) setForeground(group int) error {
	return tty.WithoutTTOU(func() error { return unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) })
}

// stoppedForTerminal reports whether the signal is how a terminal stops who
// uses it from the background.
func stoppedForTerminal(sig syscall.Signal) bool {
	return sig == unix.SIGTTIN || sig == unix.SIGTTOU
}
