// Package guard is the process between berth's supervisor and the command: the
// parent of the command, which kills the command's whole tree when told, when
// its deadline passes, or when the supervisor is gone.
//
// The supervisor's process has one Host, and starts a guard ahead of time:
//
//	host, err := guard.NewHost()
//	g, err := host.Launch(guard.Spec{Path: "/usr/bin/producer", Args: []string{"producer"}, Env: env})
//	...                                      // until the slot is won
//	err = g.Start(supervisor.Start{Deadline: deadline})
//	for event := range g.Events() { ... }    // Started, Exited, Dead
//
// The guard's process is the same binary under the name Name, and runs Main.
//
// The tree is every descendant of the guard, which is a child subreaper: a
// process cannot leave it by forking twice, by setsid or by a group of its own.
// What is started by somebody else on the command's behalf (a container, a
// timer unit, at(1)) is not in it. If guard and supervisor are killed in the
// same instant, only the command's first process is certain to die, of its
// parent-death signal; Spec.Namespace covers that case too.
package guard

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/supervisor"
)

// Host is the supervisor's side: it starts guards, and is the one waiter of its
// process, so that as PID 1 it reaps every orphan. A process has one.
type Host struct {
	spare map[int]uint64 // children from before berth was executed: not ours to kill

	reserve sync.Once // the threads of this process

	mu     sync.Mutex // held while forking and while reaping, so that no end is missed
	guards map[int]*Guard
	reaped uint64 // how many children have been

	running  sync.WaitGroup // guards that are followed
	children chan os.Signal
	stop     chan struct{}
	stopped  chan struct{}
}

// Spec is the command that a guard is for.
type Spec struct {
	Dir   string   // the working directory, see LeaveDir; "" is that of this process
	Path  string   // the executable, absolute or relative to the working directory
	Args  []string // from argv[0] on
	Env   []string // the command's environment but for Start.Vars
	Login *Login   // nil: who started berth

	// Numbered are variables, of Env or not, whose value is to be the process number
	// of the command. Default none.
	Numbered []string

	// Namespace has the guard be the first process of a PID namespace of its
	// own, with a /proc of its own: the command then dies even if guard and
	// supervisor are killed in the same instant. It needs CAP_SYS_ADMIN; Launch
	// fails with ErrNamespace where that is missing, or supervisor.Unusable is told
	// with it. The command cannot be given the terminal.
	Namespace bool
}

func (s Spec) numbered() string {
	if len(s.Numbered) == 0 {
		return noAddress
	}
	return strings.Join(s.Numbered, ",")
}

// NewHost makes this process the reaper of everything below it.
func NewHost() (*Host, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("cannot become a subreaper, which needs Linux 3.4: %w", err)
	}
	self, err := openProcess(os.Getpid(), 0)
	if err != nil {
		return nil, fmt.Errorf("cannot signal processes safely, which needs pidfd_open (Linux 5.3, and a seccomp profile that allows it): %w", err)
	}
	unix.Close(self)
	h := &Host{
		spare:    make(map[int]uint64),
		guards:   make(map[int]*Guard),
		children: make(chan os.Signal, 1),
		stop:     make(chan struct{}),
		stopped:  make(chan struct{}),
	}
	if err := h.spareChildren(); err != nil {
		return nil, err
	}
	signal.Notify(h.children, unix.SIGCHLD)
	go h.run()
	return h, nil
}

// spareChildren notes the children that are there already. Usually there are
// none, which the kernel says at once; /proc has to be readable all the same.
func (h *Host) spareChildren() error {
	// Another namespace's numbers would be taken for ours: nothing would be
	// found to kill, or somebody else (pid_namespaces(7), "/proc and PID
	// namespaces").
	switch self, err := os.Readlink("/proc/self"); {
	case err == nil && self != strconv.Itoa(os.Getpid()):
		return errors.New("/proc is that of another PID namespace; mount it for the one that berth runs in, as unshare --mount-proc does")
	case err != nil:
		return errors.New("cannot read /proc; berth needs it, mounted for the PID namespace that it runs in (unshare --mount-proc)")
	}
	if childless() {
		return nil
	}
	table, err := processTable()
	if err != nil {
		return err
	}
	for _, p := range table {
		if p.parent == os.Getpid() {
			h.spare[p.pid] = p.start
		}
	}
	return nil
}

// Close waits for the last guard's end and ends the Host's goroutine. Guards
// have been told to end by then.
func (h *Host) Close() {
	h.running.Wait()
	signal.Stop(h.children)
	close(h.stop)
	<-h.stopped
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
	_, more := reapAll(unix.WUNTRACED, func(pid int, status syscall.WaitStatus) {
		g, found := h.guards[pid]
		if status.Stopped() {
			if found {
				_ = unix.Kill(pid, unix.SIGCONT)
				g.noteHalt()
			}
			return
		}
		h.reaped++
		if found {
			delete(h.guards, pid)
			close(g.gone)
		}
	})
	if more {
		reapSoon(h.children)
	}
}

// Launch starts a guard for the command. It waits for orders at little cost. One
// that turns out not to be able to work tells supervisor.Unusable.
func (h *Host) Launch(spec Spec) (supervisor.Guard, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, fmt.Errorf("cannot start the guard: %w", err)
	}
	g := newGuard(h, ours, spec.Namespace)
	err = h.fork(g, spec, theirs)
	unix.Close(theirs) // before it is read from: the end of a dead guard must be seen
	if err != nil {
		ours.Close()
		return nil, err
	}
	h.reserve.Do(reserveThreads) // while the guard's program is loaded, and before it may start anything
	h.running.Go(g.run)
	return g, nil
}

// fork makes the guard's process, with the connection's other end.
func (h *Host) fork(g *Guard, spec Spec, theirs int) error {
	// The guard inherits the user's own descriptors at their own numbers, for
	// the command; the connection must not take the place of one.
	inherited, err := unix.FcntlInt(uintptr(theirs), unix.F_DUPFD, 3)
	if err != nil {
		return fmt.Errorf("cannot start the guard: %w", err)
	}
	defer unix.Close(inherited)
	// A group of its own: who kills berth's group must not hit both.
	sys := &syscall.SysProcAttr{Setpgid: true}
	namespace := sharedNamespace
	if spec.Namespace {
		namespace, sys.Cloneflags = ownNamespace, namespaceFlags
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	err = withStopsBlocked(func(blocked uint32) (err error) {
		args := []string{Name, fmt.Sprint(inherited), g.group, spec.Login.String(), namespace, fmt.Sprintf("%x", blocked), spec.Dir, spec.numbered(), spec.Path}
		// /proc/self/exe is this very binary, even if it was replaced meanwhile.
		g.pid, err = syscall.ForkExec("/proc/self/exe", append(args, spec.Args...), &syscall.ProcAttr{
			Env:   spec.Env,
			Files: []uintptr{0, 1, 2},
			Sys:   sys,
		})
		return err
	})
	if err != nil {
		return notForked(err, spec.Namespace)
	}
	h.guards[g.pid] = g
	return nil
}

// notForked says why a guard could not be started.
func notForked(err error, namespace bool) error {
	switch {
	case errors.Is(err, unix.E2BIG):
		return fmt.Errorf("the command line and environment are too long: %w", err)
	case namespace && errors.Is(err, unix.EPERM):
		return fmt.Errorf("cannot make a PID namespace: %w: %w", err, ErrNamespace)
	case namespace:
		return fmt.Errorf("cannot start the guard in a PID namespace: %w", err)
	}
	return fmt.Errorf("cannot start the guard: %w", err)
}

// killFallen kills what is below this process and is no guard's, until nothing
// of it is left: the tree of a guard that died has fallen to us. It goes on for
// as long as there is one that may not be signalled, which refused is told once.
func (h *Host) killFallen(refused func(pid int)) {
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	defer signal.Stop(children)
	var k killer
	for {
		before, spared := h.spared()
		k.spare = spared
		killed := k.pass()
		if killed.refused != 0 && refused != nil {
			refused(killed.refused)
			refused = nil
		}
		if h.noneFallen(&k, before) {
			return
		}
		after, _ := h.spared()
		rest := time.After(k.rest(before != after))
		var ended <-chan os.Signal // heeded where passes are rare
		if k.slow() {
			ended = children
		}
		select {
		case <-rest:
		case <-ended: // the reaper takes it
			k.hurry()
		}
	}
}

// noneFallen reports whether nothing is left to kill. The kernel knows whether
// there is a child at all. Beside those to be spared, a look that finds nothing
// counts if no child was reaped during it: one could have forked after /proc was
// listed, and have been gone when it was its turn.
func (h *Host) noneFallen(k *killer, reaped uint64) bool {
	if len(k.spare) == 0 {
		return childless()
	}
	if len(k.seen) > 0 {
		return false
	}
	all := newKilled()
	err := k.killTable(all)
	after, _ := h.spared()
	return err == nil && all.found == 0 && reaped == after
}

// spared returns the children that are not to be killed as fallen, and how many
// have been reaped so far.
func (h *Host) spared() (reaped uint64, spared map[int]uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	spared = maps.Clone(h.spare)
	for pid := range h.guards {
		p, _ := readProcess(pid) // 0 for one that /proc hides, as processTable has it
		spared[pid] = p.start
	}
	return h.reaped, spared
}

// kill kills a guard's process, if it is still there.
func (h *Host) kill(g *Guard) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.guards[g.pid] == g { // not reaped, so the number is its own
		_ = unix.Kill(g.pid, unix.SIGKILL)
	}
}
