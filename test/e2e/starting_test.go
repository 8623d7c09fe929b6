package e2e

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// slowProgram is a program whose execution lasts until release is called:
// somebody has a lease of its file (fcntl(2), F_SETLEASE).
type slowProgram struct {
	t    testing.TB
	path string
	file *os.File // has the lease
}

func newSlowProgram(t testing.TB) slowProgram {
	t.Helper()
	p := slowProgram{t: t, path: filepath.Join(t.TempDir(), "program")}
	if err := os.WriteFile(p.path, []byte("#!/bin/sh\n"+plain+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(p.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	p.file = file
	// What another test forks at this moment has the file open too, until it
	// executes its program.
	until(t, "a lease of "+p.path, func() bool {
		_, err = unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
		return err == nil
	}, func() string { return err.Error() })
	return p
}

// executing reports whether somebody waits in execve(2): from then on the lease
// is one that is to be given up (F_GETLEASE).
func (p slowProgram) executing() bool {
	p.t.Helper()
	lease, err := unix.FcntlInt(p.file.Fd(), unix.F_GETLEASE, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	return lease != unix.F_WRLCK
}

func (p slowProgram) release() {
	p.t.Helper()
	if _, err := unix.FcntlInt(p.file.Fd(), unix.F_SETLEASE, unix.F_UNLCK); err != nil {
		p.t.Fatal(err)
	}
}

// run starts a berth under the lock, up to the execution of the program.
func (p slowProgram) run(c contest, flags ...string) *berth {
	p.t.Helper()
	args := append(append([]string{"run", "--" + c.kind, c.name}, c.flags...), flags...)
	b := start(p.t, append(args, "--", p.path)...)
	until(p.t, "the program's execution", func() bool {
		b.stays()
		return p.executing()
	})
	b.awaitLog("slot won")
	return b
}

// fault: signal-starting, hup-starting
func TestSignalWhileTheCommandIsBeingStarted(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		heard := map[syscall.Signal]string{syscall.SIGHUP: "signal kept until the command has been started"}
		wanted := map[syscall.Signal]int{syscall.SIGHUP: 129}
		maps.Copy(wanted, endings)
		for sig, status := range wanted {
			t.Run(unix.SignalName(sig), func(t *testing.T) {
				t.Parallel()
				c, program := p.contest(t, "mutex"), newSlowProgram(t)
				b := program.run(c, "--stop=TERM 10m, KILL") // the signal itself ends it
				b.signal(sig)
				b.awaitLog(cmp.Or(heard[sig], "told to end"))
				b.stays()
				c.wantHeld()
				if len(b.logged("command started")) > 0 {
					t.Fatal("the command was started before its program could be read")
				}
				program.release()
				b.wantStatus(status)
				if left := b.command(); len(left) > 0 {
					t.Errorf("when berth had ended %v were left", left)
				}
				c.wantFree()
				b.wantNothingLeft()
			})
		}
	})
}

// fault: signal-starting
//
// Its file may never be read, as on a network file system that has gone.
func TestTermEndsBerthThoughTheProgramCannotBeRead(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c, program := p.contest(t, "mutex"), newSlowProgram(t)
		b := program.run(c, quickStop)
		b.signal(syscall.SIGTERM)
		b.wantStatus(137)
		c.wantFree()
		b.wantNothingLeft()
		program.release()
		if len(b.runs()) > 0 {
			t.Error("the command was run")
		}
	})
}
