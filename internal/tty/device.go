package tty

import "golang.org/x/sys/unix"

// Device is this process's controlling terminal (tty(4)).
type Device struct{ fd int }

// Open opens the controlling terminal, whatever standard input is. It returns nil if
// this process has none.
func Open() *Device {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return &Device{fd}
}

// Close closes the terminal.
func (d *Device) Close() { unix.Close(d.fd) }

// Foreground returns the process group that may use the terminal (tcgetpgrp(3)), whose
// processes may all have ended. It returns -1 if that is not known, as after a hangup.
func (d *Device) Foreground() (group int) {
	group, err := unix.IoctlGetInt(d.fd, unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return group
}

// SetForeground gives the terminal to a process group of this session, also from the
// background.
func (d *Device) SetForeground(group int) error {
	return withoutTTOU(func() error { return unix.IoctlSetPointerInt(d.fd, unix.TIOCSPGRP, group) })
}

// Settings returns how the terminal is set (termios(3)), nil if it cannot be read.
func (d *Device) Settings() *unix.Termios {
	settings, _ := unix.IoctlGetTermios(d.fd, unix.TCGETS) // nil if it fails
	return settings
}

// SetSettings sets the terminal, also from the background.
func (d *Device) SetSettings(settings *unix.Termios) error {
	return withoutTTOU(func() error { return unix.IoctlSetTermios(d.fd, unix.TCSETS, settings) })
}
