package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/boottime"
	"berth/supervisor"
)

// Name is the guard's argv[0]: what ps shows, and how main tells which of the
// two programs in this binary it is.
const Name = "berth-guard"

// foregroundPause lies between two looks whether berth was brought to the
// foreground. Somebody who types does not notice it.
const foregroundPause = 100 * time.Millisecond

// helper is the guard process. One goroutine owns it: the one that waits and
// decides.
type helper struct {
	conn     *connectionTo
	login    *Login
	group    string // the control group to make, "" for none
	timer    *boottime.Timer
	terminal *terminal

	deadline boottime.Instant
	files    []*os.File // held open until this process ends
	will     []byte
	vars     []string
	execute  Executor
	bequest  bool // the will is to be executed: the supervisor is gone, or too late
	cgroup   *cgroup
	ice      ice
	inner    bool // this is the first process of a PID namespace of its own
	started  bool
	forks    chan<- *syscall.ProcAttr // to forkOn; never closed
	forked   chan forked
	forking  bool // forked will tell
	stage    *stage
	early    map[int]syscall.WaitStatus // what was reaped while forking
	children chan os.Signal             // has room for one: a child has changed its state
	first    int                        // the command's first process, while it is not reaped
	status   syscall.WaitStatus
	killing  bool
	asked    bool      // the supervisor wants to know that KILL was sent
	told     time.Time // when it was told last, zero: not yet
	refused  bool      // some process of the tree may not be signalled, and that was told
	killer   killer
	progress bool             // something has ended since the last pass of killing
	again    <-chan time.Time // the next pass
	look     <-chan time.Time // for the foreground, while the command waits for it
	bond     bond
	dead     bool
}

// Executor executes a will: it tells the backend that the tree is dead, for a
// supervisor that cannot. It returns when ctx ends at the latest.
type Executor func(ctx context.Context, will []byte) error

// willTimeout bounds the execution of a will. Successors that do not get to know
// of the release wait for the handover delay, about as long.
const willTimeout = 10 * time.Second

// Main is the guard process. It is executed by Host.Launch, never by users, and
// returns its exit status once the command's tree is dead.
func Main(args []string, execute Executor) int {
	h, err := newHelper(args)
	if err == nil {
		h.execute = execute
	}
	if errors.Is(err, errUnsettled) {
		return 64 // the supervisor was told, and says it
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v; it is a part of berth and not to be started by hand\n", Name, err)
		return 64
	}
	h.run()
	return 0
}

// newHelper reads Name, the connection's descriptor, the control group to make,
// the login, the PID namespace, the stop signals to block for the command, its
// directory, the variables that are to have its number, its path and its arguments.
func newHelper(args []string) (*helper, error) {
	if len(args) < 10 {
		return nil, fmt.Errorf("arguments are missing")
	}
	fd, err := strconv.Atoi(args[1])
	if err != nil {
		return nil, fmt.Errorf("%q is no descriptor", args[1])
	}
	login, err := parseLogin(args[3])
	if err != nil {
		return nil, err
	}
	if args[4] != ownNamespace && args[4] != sharedNamespace {
		return nil, fmt.Errorf("%q is no namespace", args[4])
	}
	blocked, err := strconv.ParseUint(args[5], 16, 32)
	if err != nil {
		return nil, fmt.Errorf("%q is no signal mask", args[5])
	}
	unix.CloseOnExec(fd)
	dropSignals()
	conn, err := connection(fd)
	if err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("cannot become a subreaper: %w", err)
	}
	timer, err := boottime.NewTimer()
	if err != nil {
		return nil, err
	}
	inner := args[4] == ownNamespace
	if inner {
		if err := settleIn(&connectionTo{conn: conn}); err != nil {
			return nil, err
		}
	}
	reserveThreads()
	getReadyToFork()
	getReadyToTalk()
	forks, result, stage := make(chan *syscall.ProcAttr, 1), make(chan forked, 1), new(stage)
	go forkOn(args[6], program{path: args[8], args: args[9:], vars: args[7]}, uint32(blocked), stage, forks, result)
	return &helper{
		conn: &connectionTo{conn: conn}, group: args[2], login: login,
		inner: inner, timer: timer, terminal: newTerminal(groupOfParent()),
		forks: forks, forked: result, stage: stage, early: make(map[int]syscall.WaitStatus),
		children: make(chan os.Signal, 1),
	}, nil
}

// run ends when the tree is dead, or when the supervisor is gone before
// anything was started, and the will has been executed if it has to be.
func (h *helper) run() {
	signal.Notify(h.children, unix.SIGCHLD)
	orders := h.conn.orders()
	for !h.dead {
		if h.overdue() {
			h.bequest = true
			h.kill()
			continue
		}
		select {
		case o, open := <-orders:
			if !open {
				orders = nil
				h.bequest = true
				h.dead = !h.started
				h.kill()
				continue
			}
			h.obey(o)
		case f := <-h.forked:
			h.noteForked(f)
		case <-h.children:
			h.reap()
		case <-h.timer.C:
		case <-h.again:
			h.kill()
		case <-h.ice.again:
			if !h.killing {
				h.freezeRest()
			}
		case <-h.look:
			h.lookForTerminal()
		case <-h.bond.next:
			h.lookAtBond()
		}
	}
	h.cgroup.remove()
	if h.bequest && h.will != nil {
		ctx, cancel := context.WithTimeout(context.Background(), willTimeout)
		defer cancel()
		_ = h.execute(ctx, h.will) // who waits for it waits for the handover delay instead
	}
}

// overdue reports whether the deadline has passed and nothing was killed yet.
func (h *helper) overdue() bool { return h.started && !h.killing && h.deadline.Passed() }

// tell reports an event. A supervisor that does not read may keep the guard from
// nothing that is urgent: not from the deadline, and not from killing what is left.
func (h *helper) tell(event supervisor.GuardEvent) {
	patience := tellTimeout
	over := event.Kind == supervisor.Dead || event.Kind == supervisor.Exited && !event.Left
	if !over && (h.killing || h.conn.deaf) {
		patience = 0
	}
	if !over && h.deadline != 0 {
		patience = min(patience, h.deadline.Until())
	}
	h.conn.tell(event, patience)
}

func (h *helper) obey(o order) {
	switch o.Op {
	case opWill:
		h.will = o.Will
	case opStart:
		h.start(o)
	case opDeadline:
		h.renew(o.Deadline)
	case opSignal:
		h.signal(o.Signal, o.Scope)
	case opFreeze:
		h.freeze()
	case opThaw:
		h.thaw()
	case opKill:
		h.asked = true
		h.kill()
	}
}

func (h *helper) renew(deadline boottime.Instant) {
	if err := h.setDeadline(deadline); err != nil {
		h.kill() // a deadline that would not be kept
	}
}

func (h *helper) setDeadline(deadline boottime.Instant) error {
	h.deadline = deadline
	return h.timer.Set(deadline)
}

// start has the command forked, unless its deadline has passed on the way here.
func (h *helper) start(o order) {
	if h.started {
		return
	}
	h.tell(supervisor.GuardEvent{Kind: supervisor.Accepted})
	h.files, h.will, h.vars = o.files, o.Will, o.Vars
	h.started = true
	if err := h.setDeadline(o.Deadline); err != nil {
		h.fail(err)
		return
	}
	if h.deadline.Passed() {
		h.tell(supervisor.GuardEvent{Kind: supervisor.Overdue})
		h.finish()
		return
	}
	h.cgroup = makeCgroup(h.group)
	h.fork()
}

// reap takes what children ended or stopped, and sees whether any are left.
func (h *helper) reap() {
	var exited bool
	var stop syscall.Signal // the last one of the command's first process
	each := func(pid int, status syscall.WaitStatus) {
		if !status.Stopped() {
			h.noteEnd()
		}
		switch {
		case h.forking:
			h.early[pid] = status
		case pid != h.first:
		case status.Stopped():
			stop = status.StopSignal()
		default:
			h.killer.group = h.first // it may have others in it, and keeps its number then
			h.first, h.status, exited = 0, status, true
		}
	}
	if !h.forking {
		for pid, status := range h.early {
			each(pid, status)
		}
		clear(h.early)
	}
	left, more := reapAll(unix.WUNTRACED, each)
	if more {
		reapSoon(h.children)
	}
	if stop != 0 && h.first != 0 && !h.killing {
		h.stopped(stop)
	}
	if exited {
		given := h.terminal.takeBack()
		h.terminal.wake()
		if h.status.Signaled() {
			h.terminal.restore()
		}
		h.tell(supervisor.GuardEvent{Kind: supervisor.Exited, Status: h.status, Left: left, Terminal: given})
	}
	if !left && h.started && h.first == 0 && !h.forking {
		h.finish()
	}
}

// stopped handles a command that the terminal has stopped.
func (h *helper) stopped(sig syscall.Signal) {
	switch {
	case h.ice.frozen && sig == unix.SIGSTOP: // by us
	case stoppedForTerminal(sig) && !h.terminal.passedOn(h.first):
		h.waitForTerminal()
	case h.terminal.given, sig == unix.SIGTSTP && h.terminal.fd >= 0:
		h.terminal.asleep = !h.terminal.given
		h.terminal.takeBack()
		h.tell(supervisor.GuardEvent{Kind: supervisor.Suspended})
	}
}

// waitForTerminal is for a command that was stopped because somebody, itself or
// who is in berth's group, used the terminal from the background. Unless it goes
// on at once, that is told, once for all of them.
func (h *helper) waitForTerminal() {
	if h.look == nil && !h.lookForTerminal() {
		h.tell(supervisor.GuardEvent{Kind: supervisor.Suspended, Terminal: true})
	}
}

// lookForTerminal continues the command once who used the terminal can have it:
// at once if berth has the foreground by now. A shell's fg does not tell a job
// that was running, so there is nothing to wait for but the time to look again.
// It reports whether the command goes on.
func (h *helper) lookForTerminal() bool {
	h.look = nil
	if h.first == 0 || !h.terminal.present() {
		return false
	}
	if h.terminal.disturbed && h.terminal.regain() || !h.terminal.disturbed && h.terminal.give(h.first) {
		h.signal(unix.SIGCONT, supervisor.Group)
		return true
	}
	h.look = time.After(foregroundPause)
	return false
}

func (h *helper) signal(sig syscall.Signal, to supervisor.Scope) {
	switch {
	case to == supervisor.Tree:
		h.signalTree(sig)
	case h.first == 0:
	case to == supervisor.Group && sig == unix.SIGCONT:
		h.continueGroup()
	case to == supervisor.Group && stoppedForTerminal(sig) && h.terminal.present():
		h.disturbed(sig)
	case to == supervisor.Group && slices.Contains(keyboardStops, sig) && h.ice.frozen && !h.cgroup.isFrozen():
		h.ice.stops = append(h.ice.stops, sig)
	case to == supervisor.Group:
		_ = unix.Kill(-h.first, sig)
	default:
		_ = unix.Kill(h.first, sig)
	}
}

// signalTree sends the signal to every process of the tree, and continues those
// that are stopped, which receive nothing else. The others get no CONT: they may
// have a handler for it. When the deadline passes they are killed instead: to read
// of thousands of processes and threads takes longer than there is.
func (h *helper) signalTree(sig syscall.Signal) {
	for _, p := range descendants(h.deadline.Passed) {
		if h.deadline.Passed() {
			return
		}
		if err := signalProcess(p, sig); errors.Is(err, unix.EPERM) {
			h.noteRefused(p.pid)
		}
		if h.wantsCONT(p, sig) {
			_ = signalProcess(p, unix.SIGCONT)
		}
	}
}

// wantsCONT reports whether the process does not get the signal that it was sent
// before it is continued. Of one that /proc hides this is not known, and a CONT
// too many does less harm than a signal that is not received. What freeze has
// stopped goes on at the thaw.
func (h *helper) wantsCONT(p process, sig syscall.Signal) bool {
	if sig == unix.SIGCONT || slices.Contains(halts, sig) {
		return false
	}
	if frozen, ours := h.ice.stopped[p.pid]; ours && frozen.start == p.start {
		return false
	}
	return p.hidden || halted(p.pid)
}

// continueGroup hands a CONT on to the command's group, and continues the rest of
// berth's own group after it: what that does at the terminal may concern the
// command.
func (h *helper) continueGroup() {
	h.look = nil // what goes on now asks again, whoever it is
	h.terminal.offer(h.first)
	if h.ice.frozen {
		h.ice.stops = nil
		h.continueLater(h.first)
	} else {
		_ = unix.Kill(-h.first, unix.SIGCONT)
	}
	h.terminal.wake()
}

// disturbed is for a signal by which the terminal has stopped berth's group,
// because somebody there, a pager behind the command, has used it from the
// background. If the group can have the terminal, that one just goes on, and the
// command hears nothing of it. Otherwise the command is stopped like the rest of
// its pipeline until they can; that it stops may not be seen: it may ignore the
// signal, or be in vfork(2).
func (h *helper) disturbed(sig syscall.Signal) {
	h.terminal.disturb()
	if h.look == nil && h.terminal.regain() {
		h.terminal.wake()
		return
	}
	_ = unix.Kill(-h.first, sig)
	h.waitForTerminal()
}

// kill sends KILL to what there is of the tree, and sees to it that this
// happens again until nothing is left.
func (h *helper) kill() {
	if !h.started || h.dead {
		return
	}
	overdue := h.overdue()
	h.killing = true
	if h.forking && h.stage.leave() {
		if overdue {
			h.tell(supervisor.GuardEvent{Kind: supervisor.Overdue})
		}
		h.noteForked(forked{err: errLate})
		return
	}
	if h.inner {
		_ = unix.Kill(-1, unix.SIGKILL) // everything in the namespace but this process
	}
	h.cgroup.kill()
	if h.first != 0 {
		h.killer.group = h.first
		_ = unix.Kill(-h.first, unix.SIGKILL) // with what it is just forking
	}
	if killed := h.killer.pass(); killed.refused != 0 { // whether it worked is seen by reaping
		h.noteRefused(killed.refused)
	}
	if overdue {
		h.tell(supervisor.GuardEvent{Kind: supervisor.Overdue})
	}
	if h.asked || !h.told.IsZero() && time.Since(h.told) >= supervisor.KillingInterval/2 {
		h.asked, h.told = false, time.Now()
		h.tell(supervisor.GuardEvent{Kind: supervisor.Killing})
	}
	h.again = time.After(h.killer.rest(h.progress))
	h.progress = false
	h.reap()
}

// noteEnd is for a process that has ended while the tree is killed. What was below
// it has fallen to this process.
func (h *helper) noteEnd() {
	h.progress = true
	if h.killing && h.killer.slow() {
		h.killer.hurry()
		h.again = time.After(h.killer.rest(true))
	}
}

// noteRefused tells once of a process that may not be signalled.
func (h *helper) noteRefused(pid int) {
	if !h.refused {
		h.refused = true
		h.tell(supervisor.GuardEvent{Kind: supervisor.Refused, Pid: pid})
	}
}

// finish tells that no process of the tree is left.
func (h *helper) finish() {
	if h.dead {
		return
	}
	h.terminal.takeBack()
	h.dead = true
	h.tell(supervisor.GuardEvent{Kind: supervisor.Dead})
}
