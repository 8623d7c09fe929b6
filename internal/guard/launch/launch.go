// Package launch forks the processes of guards: when one is needed ([Fork]), and one as soon as berth itself begins
// ([Ahead]), which is loaded on another processor while berth reads its configuration and connects ([Take]).
//
// What a guard is for it is told later, by [wire.Conn.SendCommand]. The package knows the kernel's rules for forking one,
// and not whose it is.
package launch

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/internal/guard/parent"
	"berth/internal/guard/wire"
)

// Process is one that was forked, and waits to be told what it is for.
type Process struct {
	PID     int
	Conn    *wire.Conn
	Blocked uint32 // see wire.Command
}

// Standard are the files 0, 1 and 2 of this process.
func Standard() []uintptr { return []uintptr{0, 1, 2} }

// Fork forks a guard with these files as 0, 1 and 2. Flags are those of clone(2).
func Fork(files []uintptr, flags uintptr) (*Process, error) {
	ours, theirs, err := wire.Pair()
	if err != nil {
		return nil, err
	}
	p := &Process{Conn: ours}
	err = p.fork(files, flags, theirs)
	unix.Close(theirs) // before it is read from: the end of a dead guard must be seen
	if err != nil {
		ours.Close()
		return nil, err
	}
	return p, nil
}

func (p *Process) fork(files []uintptr, flags uintptr, theirs int) error {
	// The guard inherits the user's own descriptors at their own numbers, for the command; the connection must not take
	// the place of one. No other guard may inherit it, and its command with it.
	inherited, err := unix.FcntlInt(uintptr(theirs), unix.F_DUPFD, 3)
	if err != nil {
		return err
	}
	defer unix.Close(inherited)
	return parent.WithStopsBlocked(func(blocked uint32) (err error) {
		p.Blocked = blocked
		// /proc/self/exe is this very binary, even if it was replaced meanwhile.
		p.PID, err = syscall.ForkExec("/proc/self/exe", wire.GuardArgs(inherited), &syscall.ProcAttr{
			Env:   environment(os.Environ()),
			Files: files,
			// A group of its own: whatever kills berth's group must not hit both.
			Sys: &syscall.SysProcAttr{Setpgid: true, Cloneflags: flags},
		})
		return err
	})
}

// settings are for Go's runtime in the guard. Go's fork keeps the processor that its thread has
// (syscall.forkAndExecInChild blocks in vfork(2)) until the command is executed: there has to be another, and no more,
// which would only be woken for nothing; and nothing may want all threads to stop, as a garbage collection does. The
// guard says itself when garbage is to be collected.
var settings = []string{"GOMAXPROCS=2", "GOGC=off", "GOMEMLIMIT=off"}

// environment returns that of a guard, which is not the command's: what the execution of a will may need, such as
// SSL_CERT_FILE, but no password.
func environment(own []string) []string {
	env := slices.Clone(settings)
	for _, variable := range own {
		name, _, _ := strings.Cut(variable, "=")
		set := slices.ContainsFunc(settings, func(s string) bool { return strings.HasPrefix(s, name+"=") })
		if !set && !strings.HasPrefix(name, "BERTH_") {
			env = append(env, variable)
		}
	}
	return env
}

var ahead atomic.Pointer[Process]

// Ahead forks a guard for an ordinary command, unless this process had children before it was executed: those are told
// from what falls to it later by being there first. Where that fails there is none, and who needs one learns why.
func Ahead() {
	if parent.HasChildren() {
		return
	}
	if p, err := Fork(Standard(), 0); err == nil {
		ahead.Store(p)
	}
}

// Waits reports whether there is one that was forked ahead, and nobody has taken.
func Waits() bool { return ahead.Load() != nil }

// Take returns the one that was forked ahead, once; nil: there is none. It may have ended meanwhile.
func Take() *Process { return ahead.Swap(nil) }

// Drop ends the one that was forked ahead, if nobody has taken it, so that berth leaves no process behind that lives for
// a moment longer.
func Drop() {
	if p := Take(); p != nil {
		p.End()
	}
}

// Kill kills the process, which was told nothing yet. It is still to be reaped.
func (p *Process) Kill() {
	p.Conn.Close()
	_ = unix.Kill(p.PID, unix.SIGKILL)
}

// End is Kill where nobody else reaps it.
func (p *Process) End() {
	p.Kill()
	for {
		if _, err := syscall.Wait4(p.PID, nil, 0, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
