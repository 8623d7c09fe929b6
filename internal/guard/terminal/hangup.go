package terminal

import "time"

// hangupPause lies between two looks whether the terminal that the command has is there.
const hangupPause = time.Second

// Watch receives while the command has the terminal, when it is time for HungUp.
func (t *Terminal) Watch() <-chan time.Time { return t.watch }

// HungUp reports once that the terminal has gone while the command had it. berth is not told
// of that by the kernel, which signals the group in the foreground, nor by anybody else where
// the session's leader is no interactive shell.
func (t *Terminal) HungUp() bool {
	t.watch = nil
	switch {
	case t.state != theirs:
		return false
	case t.device.Foreground() >= 0:
		t.watch = time.After(hangupPause)
		return false
	}
	t.state = ours
	return true
}
