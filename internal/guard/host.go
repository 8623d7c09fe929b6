// Package guard is the supervisor's side of the process between berth's supervisor and the command: it starts guards,
// implements [supervisor.Guard] for them, and kills what a guard that died leaves behind.
//
// The supervisor's process has one [Host], and starts a guard ahead of time:
//
//	host, err := guard.NewHost()
//	g, err := host.Launch(guard.Spec{Path: "/usr/bin/producer", Args: []string{"producer"}, Env: env})
//	...                                      // until the slot is won
//	err = g.Start(supervisor.Start{Deadline: deadline})
//	for event := range g.Events() { ... }    // Started, Exited, Dead
//
// The guard's process is the same binary under the name [wire.Name], and runs [berth/internal/guard/process.Main]: it
// is the parent of the command, and kills the command's whole tree when told, when its deadline passes, or when the
// supervisor is gone. This package must not import that one, nor decide anything about locks.
//
// The tree is every descendant of the guard, which is a child subreaper: a process cannot leave it by forking twice, by
// setsid or by a group of its own. What is started by somebody else on the command's behalf (a container, a timer unit,
// at(1)) is not in it. If guard and supervisor are both killed, the second before it can act, only the command's first
// process is certain to die, of its parent-death signal; [Spec.Namespace] covers that case too.
package guard

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/guard/launch"
	"berth/internal/guard/parent"
	"berth/internal/guard/procfs"
	"berth/internal/guard/rights"
	"berth/internal/guard/wire"
	"berth/supervisor"
)

// Host is the supervisor's side: it starts guards, and is the one waiter of its
// process, so that as PID 1 it reaps every orphan. A process has one.
type Host struct {
	env       env
	inherited procfs.Set // children from before berth was executed: not ours to kill

	// Prepare is what else has to be done before a command starts, and can wait until a guard is being loaded. pause has
	// everything else done first that is due, unless a command waits for it. Default: nothing.
	Prepare func(pause func())

	preparing sync.Once
	prepared  chan struct{} // closed when all that is done
	wanted    atomic.Bool   // a command waits for it

	mu     sync.Mutex      // held while forking and while reaping, so that no end is missed
	ahead  *launch.Process // was forked before, and is for the command's first guard; nil: there is none
	guards map[int]*Guard
	reaped uint64 // how many children have been

	running  sync.WaitGroup // guards that are followed
	children chan os.Signal
	stop     chan struct{}
	stopped  chan struct{}
}

// env is what tests replace.
type env struct {
	procfs    *procfs.Env
	newCgroup func() string // see the function newCgroup
}

// launchTimeout is how long a guard may take until it reads what it is for, which is milliseconds. Only a long
// environment is waited for, by a supervisor that does nothing else then.
const launchTimeout = 10 * time.Second

// Spec is the command that a guard is for.
type Spec struct {
	Dir        string              // the working directory, see LeaveDir; "" is that of this process
	Path       string              // the executable, absolute or relative to the working directory
	Args       []string            // from argv[0] on
	Enter      string              // absolute; the command's working directory in place of Dir, which its user enters
	Env        []string            // the command's environment but for Start.Vars
	Credential *syscall.Credential // the user; nil: the one who started berth
	Rights     rights.Rights       // what it may do; zero: what berth may

	// Aside is for what is not the command, a hook: it reads nothing, writes to standard error alone, and is not given
	// the terminal. What the command reads and writes is the command's alone.
	Aside bool

	// Silent is for what runs again and again: what it writes goes nowhere. It needs Aside.
	Silent bool

	// Output is where what is Aside writes to. Default nil: standard error.
	Output *os.File

	// Numbered are variables, of Env or not, whose value is to be the process number
	// of the command. Default none.
	Numbered []string

	// Namespace has the guard be the first process of a PID namespace of its
	// own, with a /proc of its own: the command then dies even if guard and
	// supervisor are both killed. It needs CAP_SYS_ADMIN; Launch
	// fails with ErrNamespace where that is missing, or wire.Unusable is told
	// with it. The command cannot be given the terminal.
	Namespace bool
}

// Staged reports whether the command's user has to execute berth's own program first.
func (s Spec) Staged() bool { return wire.Staged(s.Numbered, s.Rights) }

// NewHost makes this process the reaper of everything below it.
func NewHost() (*Host, error) { return newHost(env{procfs.Kernel(), newCgroup}) }

func newHost(env env) (*Host, error) {
	if err := parent.BecomeSubreaper(); err != nil {
		return nil, err
	}
	self, err := env.procfs.OpenPidfd(os.Getpid(), 0)
	if err != nil {
		return nil, fmt.Errorf("cannot signal processes safely, which needs pidfd_open (Linux 5.3, and a seccomp "+
			"profile that allows it): %w", err)
	}
	unix.Close(self)
	inherited, err := childrenNow(env.procfs)
	if err != nil {
		return nil, err
	}
	h := &Host{
		env:       env,
		inherited: inherited,
		ahead:     launch.Take(),
		guards:    make(map[int]*Guard),
		children:  make(chan os.Signal, 1),
		stop:      make(chan struct{}),
		stopped:   make(chan struct{}),
		prepared:  make(chan struct{}),
		Prepare:   func(func()) {},
	}
	signal.Notify(h.children, unix.SIGCHLD)
	h.children <- unix.SIGCHLD // the one that was forked before may have ended
	go h.run()
	return h, nil
}

// childrenNow returns the children that are there already and are not to be killed: what ran before berth was executed,
// and the server of --listen. Usually there are none, which the kernel says at once; /proc has to be readable all the same.
func childrenNow(env *procfs.Env) (procfs.Set, error) {
	// Another namespace's numbers would be taken for ours: nothing would be
	// found to kill, or somebody else's process (pid_namespaces(7), "/proc and PID
	// namespaces").
	switch self, err := os.Readlink("/proc/self"); {
	case err == nil && self != strconv.Itoa(os.Getpid()):
		return nil, errors.New("/proc is that of another PID namespace; mount it for the one that berth runs in, " +
			"as unshare --mount-proc does")
	case err != nil:
		return nil, errors.New("cannot read /proc; berth needs it, mounted for the PID namespace that it runs in " +
			"(unshare --mount-proc)")
	}
	switch {
	case !parent.HasChildren(),
		launch.Waits() && len(env.Children(os.Getpid())) == 1: // the guard that was forked ahead
		return nil, nil
	}
	table, err := env.Table()
	if err != nil {
		return nil, err
	}
	children := make(procfs.Set)
	for _, p := range table {
		if p.Parent == os.Getpid() {
			children.Add(p)
		}
	}
	return children, nil
}

// Close waits for the last guard's end and ends the Host's goroutine. Guards
// have been told to end by then.
func (h *Host) Close() {
	h.running.Wait()
	signal.Stop(h.children)
	close(h.stop)
	<-h.stopped
	if h.ahead != nil {
		h.ahead.End()
	}
}

func (h *Host) run() {
	defer close(h.stopped)
	for {
		select {
		case <-h.children:
			h.reap()
		case <-h.stop:
			return
		}
	}
}

// reap takes every end of a child: guards, and orphans that fell to us. A guard
// that somebody has stopped is continued: it has to keep its deadline, and would
// hide the command's end.
func (h *Host) reap() {
	h.mu.Lock()
	defer h.mu.Unlock()
	parent.Reap(h.children, func(pid int, status syscall.WaitStatus) {
		g, found := h.guards[pid]
		waits := h.ahead != nil && h.ahead.PID == pid
		if status.Stopped() {
			if found || waits {
				_ = unix.Kill(pid, unix.SIGCONT)
			}
			if found {
				g.noteHalt()
			}
			return
		}
		h.reaped++
		if waits {
			h.ahead.Conn.Close()
			h.ahead = nil
		}
		if found {
			delete(h.guards, pid)
			close(g.gone)
			g.conn.SayNoMore() // another process may have its end
		}
	})
}

// Launch starts a guard for the command. It waits for orders at little cost. One
// that turns out not to be able to work tells wire.Unusable.
func (h *Host) Launch(spec Spec) (supervisor.Guard, error) {
	h.mu.Lock()
	p, err := h.process(spec)
	if err != nil {
		h.mu.Unlock()
		return nil, err
	}
	g := newGuard(h, p, spec.Namespace)
	h.guards[p.PID] = g
	h.mu.Unlock()
	h.preparing.Do(func() { h.running.Go(h.prepare) })
	h.running.Go(g.run)
	command := wire.Command{
		Cgroup: g.cgroup, Credential: spec.Credential, Rights: spec.Rights, Namespace: spec.Namespace, Aside: spec.Aside,
		Blocked: p.Blocked, Dir: spec.Dir, Enter: spec.Enter, Numbered: spec.Numbered, Path: spec.Path, Args: spec.Args,
		Env: spec.Env,
	}
	if err := p.Conn.SendCommand(command, launchTimeout); err != nil {
		h.kill(g) // which has ended, or does nothing: either is told by the end of its events
	}
	return g, nil
}

// prepare does what has to be done before a command starts, while the guard's program is loaded and the lock connects.
func (h *Host) prepare() {
	defer close(h.prepared)
	pause := func() {
		if !h.wanted.Load() {
			time.Sleep(time.Microsecond) // with one processor, runtime.Gosched would not look for what has come from the network
		}
	}
	pause()
	h.Prepare(pause)
	parent.ReserveThreads()
}

// awaitPrepared waits for that.
func (h *Host) awaitPrepared() {
	h.wanted.Store(true)
	<-h.prepared
}

// process returns a guard's process: for the command the one that was forked ahead, if it is as the command needs it. The
// caller has mu.
func (h *Host) process(spec Spec) (p *launch.Process, err error) {
	if p = h.ahead; p != nil && !spec.Aside {
		h.ahead = nil
		if !spec.Namespace && len(spec.Rights.Limits) == 0 { // see rights.Raise
			return p, nil
		}
		p.Kill()
	}
	files, flags := launch.Standard(), uintptr(0)
	if spec.Namespace {
		flags = namespaceFlags
	}
	if spec.Aside {
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			return nil, fmt.Errorf("cannot start the guard: %w", err)
		}
		defer null.Close()
		files = []uintptr{null.Fd(), 2, 2}
		switch {
		case spec.Silent:
			files = []uintptr{null.Fd(), null.Fd(), null.Fd()}
		case spec.Output != nil:
			files = []uintptr{null.Fd(), spec.Output.Fd(), spec.Output.Fd()}
		}
	}
	if p, err = launch.Fork(files, flags); err != nil {
		return nil, notForked(err, spec.Namespace)
	}
	return p, nil
}

// notForked says why a guard could not be started.
func notForked(err error, namespace bool) error {
	switch {
	case namespace && errors.Is(err, unix.EPERM):
		return fmt.Errorf("cannot make a PID namespace: %w: %w", err, ErrNamespace)
	case namespace:
		return fmt.Errorf("cannot start the guard in a PID namespace: %w", err)
	}
	return fmt.Errorf("cannot start the guard: %w", err)
}

// notOrphans returns the children that did not fall to this process, and how many
// have been reaped so far.
func (h *Host) notOrphans() (children procfs.Set, reaped uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	children = maps.Clone(h.inherited)
	if children == nil {
		children = make(procfs.Set)
	}
	pids := slices.Collect(maps.Keys(h.guards))
	if h.ahead != nil {
		pids = append(pids, h.ahead.PID)
	}
	for _, pid := range pids {
		p, _ := procfs.Read(pid) // no start for one that /proc hides, as in procfs.Table
		p.Pid = pid
		children.Add(p)
	}
	return children, h.reaped
}

// kill kills a guard's process, if it is still there.
func (h *Host) kill(g *Guard) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.guards[g.pid] == g { // not reaped, so the number is its own
		_ = unix.Kill(g.pid, unix.SIGKILL)
	}
}
