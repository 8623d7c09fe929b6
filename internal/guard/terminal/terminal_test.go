package terminal

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/guard/procfs"
)

// fake is a terminal of which the test says who has it.
type fake struct {
	foreground int
	settings   unix.Termios
}

func (f *fake) Foreground() int                   { return f.foreground }
func (f *fake) SetForeground(group int) error     { f.foreground = group; return nil }
func (f *fake) Settings() *unix.Termios           { saved := f.settings; return &saved }
func (f *fake) SetSettings(s *unix.Termios) error { f.settings = *s; return nil }

// Process groups that do not exist, so that nobody else is in them. The command's
// counts as one that is dead.
const (
	berths = 1<<22 + iota
	commands
)

func newFake(foreground int) (*Terminal, *fake) {
	device := &fake{foreground: foreground}
	return &Terminal{env: procfs.Kernel(), device: device, owner: berths}, device
}

func TestCommandHasTheTerminalUntilItEnds(t *testing.T) {
	terminal, device := newFake(berths)
	device.settings.Lflag = unix.ECHO
	terminal.Offer(commands)
	if device.foreground != commands || terminal.state != theirs {
		t.Fatalf("%d has the terminal, state %d", device.foreground, terminal.state)
	}
	device.settings.Lflag = 0
	if !terminal.Ended(true) || device.foreground != berths || device.settings.Lflag != unix.ECHO {
		t.Errorf("after its end %d has the terminal, with the flags %d", device.foreground, device.settings.Lflag)
	}
}

func TestHangupIsToldOnceAndOnlyIfTheCommandHadTheTerminal(t *testing.T) {
	const gone = -1
	terminal, device := newFake(berths)
	if terminal.HungUp() {
		t.Error("it is told while berth has the terminal")
	}
	terminal.Offer(commands)
	<-terminal.Watch()
	if terminal.HungUp() {
		t.Error("it is told of a terminal that is there")
	}
	<-terminal.Watch()
	device.foreground = gone
	for _, want := range []bool{true, false} {
		if terminal.HungUp() != want {
			t.Errorf("it is told: %v", !want)
		}
	}
	if terminal.Watch() != nil {
		t.Error("it goes on looking")
	}
}

func TestSuspendedCommandGetsTheTerminalWhenItGoesOn(t *testing.T) {
	terminal, device := newFake(berths)
	terminal.Offer(commands)
	if verdict := terminal.Stopped(commands, unix.SIGTSTP); verdict != Suspended || device.foreground != berths {
		t.Errorf("verdict %d, %d has the terminal", verdict, device.foreground)
	}
	if terminal.state != ours || terminal.pipeline {
		t.Errorf("state %d, rest of the group stopped: %v", terminal.state, terminal.pipeline)
	}
	terminal.Continued(commands)
	terminal.Wake()
	if device.foreground != commands || terminal.state != theirs {
		t.Errorf("%d has the terminal, state %d", device.foreground, terminal.state)
	}
}

func TestCommandInTheBackgroundWaitsForTheTerminal(t *testing.T) {
	shell := unix.Getpgrp()
	terminal, device := newFake(shell)
	terminal.Offer(commands)
	for _, want := range []Verdict{Waits, Nothing} {
		if verdict := terminal.Stopped(commands, unix.SIGTTIN); verdict != want {
			t.Errorf("verdict %d, want %d", verdict, want)
		}
	}
	<-terminal.Retry()
	if terminal.Look(commands) || device.foreground != shell {
		t.Error("the terminal was taken from the shell")
	}
	device.foreground = berths // fg
	<-terminal.Retry()
	if !terminal.Look(commands) || device.foreground != commands {
		t.Errorf("%d has the terminal", device.foreground)
	}
	terminal.Continued(commands)
	if terminal.state != theirs || terminal.Retry() != nil {
		t.Errorf("state %d", terminal.state)
	}
}

// A pager reads a key, while the command has the terminal.
func TestPipelineGetsTheTerminalBack(t *testing.T) {
	terminal, device := newFake(berths)
	terminal.Offer(commands)
	if !terminal.PipelineStopped() || device.foreground != berths || terminal.pipeline {
		t.Errorf("%d has the terminal, rest of the group stopped: %v", device.foreground, terminal.pipeline)
	}
	device.foreground = os.Getpid() // another job
	if terminal.PipelineStopped() || terminal.Stopped(commands, unix.SIGTTIN) != Waits {
		t.Error("the pager goes on in the background")
	}
	device.foreground = berths // fg: the command is continued, and the pager with it, which asks again
	if !terminal.Look(commands) || !terminal.pipeline {
		t.Errorf("%d has the terminal, rest of the group stopped: %v", device.foreground, terminal.pipeline)
	}
	terminal.Continued(commands)
	terminal.Wake()
	if !terminal.PipelineStopped() || device.foreground != berths {
		t.Errorf("%d has the terminal", device.foreground)
	}
}

func TestWithoutATerminalNothingIsWaitedFor(t *testing.T) {
	terminal := &Terminal{}
	terminal.Offer(commands)
	for range 2 { // each stop is told
		if verdict := terminal.Stopped(commands, unix.SIGTTOU); verdict != Waits {
			t.Errorf("verdict %d", verdict)
		}
	}
	if terminal.Stopped(commands, unix.SIGTSTP) != Nothing || terminal.PipelineStopped() || terminal.Retry() != nil ||
		terminal.Ended(true) {
		t.Error("there is something of a terminal")
	}
}

// Somebody has continued the command alone after Ctrl-Z. It gets the terminal when it
// asks, before the rest of its pipeline goes on.
func TestCommandOfAStoppedPipelineGetsTheTerminal(t *testing.T) {
	terminal, device := newFake(berths)
	if verdict := terminal.Stopped(commands, unix.SIGTSTP); verdict != Suspended || !terminal.pipeline {
		t.Errorf("verdict %d, rest of the group stopped: %v", verdict, terminal.pipeline)
	}
	if verdict := terminal.Stopped(commands, unix.SIGTTIN); verdict != Continue || device.foreground != commands {
		t.Errorf("verdict %d, %d has the terminal", verdict, device.foreground)
	}
}
