package terminal

import (
	"golang.org/x/sys/unix"

	"berth/internal/guard/procfs"
	"berth/internal/tty"
)

// Settings returns the settings of the terminal that this process's group has the
// foreground of, nil if there is none.
func Settings() *unix.Termios {
	device := tty.Open()
	if device == nil {
		return nil
	}
	defer device.Close()
	if device.Foreground() != unix.Getpgrp() {
		return nil
	}
	return device.Settings()
}

// TakeBack takes the terminal back where this process is the supervisor of a guard
// that was killed and has left the foreground to a dead group: no key would reach
// anybody, and the next command could not be given the terminal. The settings are
// those from before the command was started, nil if they are not known.
func TakeBack(env *procfs.Env, settings *unix.Termios) {
	device := tty.Open()
	if device == nil {
		return
	}
	defer device.Close()
	t := &Terminal{env: env, device: device, owner: unix.Getpgrp(), state: theirs,
		settings: settings} // it may have been
	if t.takeBack() {
		t.restore()
	}
}
