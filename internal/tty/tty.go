// Package tty has what a process needs that uses a terminal from the
// background: the kernel stops such a process with SIGTTOU, unless that signal
// is blocked (tcsetpgrp(3), termios(3)).
//
//	terminal := tty.Open() // nil: there is none
//	err := terminal.SetForeground(group)
//	logger := hclog.New(&hclog.LoggerOptions{Output: tty.Writer{W: os.Stderr}})
//
// It knows the device. Who is to have it when is for package guard/terminal to say.
package tty

import (
	"fmt"
	"io"
	"runtime"

	"golang.org/x/sys/unix"
)

// withoutTTOU runs f with SIGTTOU blocked on f's thread. Ignoring the signal
// instead would be inherited by the command.
func withoutTTOU(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var block, before unix.Sigset_t
	bit := uint(unix.SIGTTOU - 1)
	block.Val[bit/64] |= 1 << (bit % 64)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &block, &before); err != nil {
		return fmt.Errorf("cannot block SIGTTOU: %w", err)
	}
	defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()
	return f()
}

// Writer writes to a terminal also while another process group has it and the
// terminal is set to stop such output (stty tostop): the command has the
// foreground, and berth logs.
type Writer struct {
	W io.Writer
}

// Write implements io.Writer.
func (w Writer) Write(data []byte) (n int, err error) {
	blockErr := withoutTTOU(func() error {
		n, err = w.W.Write(data)
		return nil
	})
	if blockErr != nil {
		return n, blockErr
	}
	return n, err
}
