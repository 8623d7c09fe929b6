// Package wire is what the supervisor's process and the guard's say to each other: the arguments that a guard is
// started with ([Args]), orders to it ([Order]), events from it ([Event]), and the connection that they travel on
// ([Conn]). Both sides are the same binary, so that nothing here has to be understood by another version.
// The supervisor decides by these words as well.
//
// It must import next to nothing, so that the guard's process needs next to nothing.
package wire

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/boottime"
)

// Op is what an order is for.
type Op string

// What the supervisor orders. The end of the connection says that the supervisor is
// dead.
const (
	OpWill     Op = "will"     // keep Will; none takes it back, and is the answer to the tree's death
	OpStart    Op = "start"    // start the command with Vars, Deadline, Will, Files and Last
	OpDeadline Op = "deadline" // kill the tree at Deadline, and no sooner
	OpSignal   Op = "signal"   // send Signal to Scope
	OpFreeze   Op = "freeze"
	OpThaw     Op = "thaw"
	OpKill     Op = "kill"
)

// Scope is which part of a command a signal is for.
type Scope string

// The parts of a command.
const (
	First Scope = "first" // the process that the guard started
	Group Scope = "group" // the process group of that process
	Tree  Scope = "tree"  // every process of the command; what is stopped of it goes on
	// Head is the first process alone, for a signal that is to end the command. Whatever of the command is stopped
	// goes on after it, as with Tree: the first process may wait for it.
	Head Scope = "head"
	Rest Scope = "rest" // every process of the command but the first
)

// Order is one message from the supervisor to the guard.
type Order struct {
	Op       Op
	Vars     []string         // NAME=value
	Deadline boottime.Instant // 0: none
	Signal   syscall.Signal
	Scope    Scope
	Will     []byte

	Files []*os.File // travel beside the message; the receiver's own copies
	Last  bool       // Files are to be unlocked once the tree is dead

	// Beside says that the last of Files is no such file: the will waits for its lock.
	Beside bool
}

// Kind is what an event tells.
type Kind string

// What the guard's process tells, in order, and what its parent tells of it. Exited without Left tells Dead as well,
// and is the last that the process tells.
const (
	// NotMounted, with its Errno, is all that a guard says in whose PID namespace /proc cannot be mounted. The
	// supervisor gets Unusable in its place.
	NotMounted Kind = "not mounted"
	// Accepted: the guard is about to start the command, which takes as long
	// as its program takes to be read. It has not run before that, and may have after it.
	Accepted Kind = "accepted"
	// Unusable, from the parent: the guard cannot work here, for the reason Err, and has ended.
	Unusable Kind = "unusable"
	// Started: the command runs; Pid is its first process, 0 if that has
	// ended before its number could be found out.
	Started Kind = "started"
	// NotStarted: the command could not be executed; Errno says why.
	NotStarted Kind = "not started"
	// Suspended: the command's first process was stopped from the terminal.
	Suspended Kind = "suspended"
	// HungUp: the terminal has gone, and the command had its foreground.
	HungUp Kind = "hung up"
	// Exited: the command's first process ended with Status; Left says
	// whether others of the tree are alive.
	Exited Kind = "exited"
	// Refused: the process Pid of the tree may not be signalled, because it
	// runs as another user. It is told once, and Dead not before its end.
	Refused Kind = "refused"
	// Killing: the guard has been told to kill, and has sent KILL to the whole
	// tree. What does not end of it, it goes on to kill, and says so again.
	Killing Kind = "killing"
	// Lasting: seconds after KILL the process Pid is still there, as About says. With
	// Left it lives. Otherwise it is dead, like all that is left of the tree, and its
	// tracer keeps it: Dead is told all the same. Either is told once by the process that
	// kills the tree: the guard, or after its death berth.
	Lasting Kind = "lasting"
	// Silent, from the parent: the guard has not said in time that it does what it was told, and is killed.
	Silent Kind = "silent"
	// Halted, from the parent: the guard itself was stopped, by SIGSTOP for example, and has been
	// continued. It is told once.
	Halted Kind = "halted"
	// UserChanged: the command's first process, Pid, runs as another user than it was
	// started as, and has lost its parent-death signal with that. It is told once.
	UserChanged Kind = "user changed"
	// Overdue: the deadline passed, the guard is killing the tree.
	Overdue Kind = "overdue"
	// Dead: no process of the tree is left.
	Dead Kind = "dead"
)

// Event is something that happened to the command or its guard: one message from the guard's process, in which
// processes have the numbers of its PID namespace.
type Event struct {
	Kind   Kind
	Pid    int
	Errno  syscall.Errno
	Status syscall.WaitStatus
	Left   bool

	// Terminal, with Exited: the terminal was the command's; with Suspended: the
	// command waits for it.
	Terminal bool

	// What the guard's parent adds; it does not travel.
	Err     error  // with Unusable
	About   string // with Lasting
	Orphans bool   // with Exited and Dead: the guard had died, its tree was killed without it
}

// Both sides keep to these times.
const (
	// SendTimeout bounds how long one side waits for the other to read.
	SendTimeout = time.Second
	// KillingInterval is how long a guard is silent at most while it kills.
	KillingInterval = 2 * time.Second
	// WillTimeout bounds the execution of a will. Successors that do not get to know
	// of the release wait for the handover delay, about as long.
	WillTimeout = 10 * time.Second
)

// The connection keeps message boundaries (SOCK_SEQPACKET, unix(7)), so that
// no message needs framing. maxMessage bounds one; what could be long, the
// command and its environment, does not travel here.
const (
	maxMessage = 64 << 10
	maxFiles   = 16
)

// Conn is one end of the connection. Several goroutines may send, with one timeout; one receives.
// It is no net.Conn: what package net needs is initialised late; see package entry.
type Conn struct {
	file *os.File
	raw  syscall.RawConn

	// Buffers of Receive, which are used again for each message: a deadline is
	// renewed every second, for months.
	data, beside []byte
}

// Pair returns both ends of a connection, theirs as a descriptor to be inherited. Both
// are close-on-exec.
func Pair() (ours *Conn, theirs int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, -1, fmt.Errorf("cannot make a socket pair: %w", err)
	}
	ours, err = Open(fds[0])
	if err != nil {
		unix.Close(fds[1])
		return nil, -1, err
	}
	return ours, fds[1], nil
}

// Open takes over the descriptor, which does not block: package os waits for no other by
// its poller.
func Open(fd int) (*Conn, error) {
	file := os.NewFile(uintptr(fd), "the guard's connection")
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_SEQPACKET {
		file.Close()
		return nil, fmt.Errorf("descriptor %d is not the guard's connection", fd)
	}
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("cannot use the guard's connection: %w", err)
	}
	return &Conn{file: file, raw: raw, data: make([]byte, maxMessage),
		beside: make([]byte, unix.CmsgSpace(maxFiles*4))}, nil
}

// Close ends the connection, and a Receive that waits.
func (c *Conn) Close() { c.file.Close() }

// SayNoMore has Receive return what the other side has said, and then io.EOF, though its end be open somewhere else.
func (c *Conn) SayNoMore() {
	_ = c.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RD) })
}

// SetReadDeadline bounds how long Receive waits from now on; the zero time is for ever. What has arrived is received,
// however late this process gets to it.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.file.SetReadDeadline(t) }

// Send writes one message with the files beside it, and waits for as long at most
// until the other side has room for it. The error wraps os.ErrDeadlineExceeded if it
// has none. Where there is room the message is sent, however late this process gets to it.
func (c *Conn) Send(message Message, files []*os.File, timeout time.Duration) error {
	data := message.appendTo(nil)
	if len(data) > maxMessage || len(files) > maxFiles {
		return fmt.Errorf("a message of %d bytes and %d files is larger than %d and %d", len(data), len(files),
			maxMessage, maxFiles)
	}
	var beside []byte
	if len(files) > 0 {
		var fds []int
		for _, file := range files {
			fds = append(fds, int(file.Fd()))
		}
		beside = unix.UnixRights(fds...)
	}
	_ = c.file.SetWriteDeadline(time.Now().Add(timeout))
	err := c.await(c.raw.Write, func(fd int) error { return unix.Sendmsg(fd, data, beside, nil, unix.MSG_NOSIGNAL) })
	if err != nil {
		return fmt.Errorf("cannot send: %w", err)
	}
	return nil
}

// await calls until there is room, or something to read, and for the last time when the deadline has passed: this
// process may have been stopped since it called.
func (c *Conn) await(wait func(func(fd uintptr) (done bool)) error, call func(fd int) error) (err error) {
	try := func(fd uintptr) (done bool) {
		for err = unix.EINTR; errors.Is(err, unix.EINTR); {
			err = call(int(fd))
		}
		return !errors.Is(err, unix.EAGAIN)
	}
	refused := wait(try)
	if errors.Is(refused, os.ErrDeadlineExceeded) {
		done := false
		if closed := c.raw.Control(func(fd uintptr) { done = try(fd) }); closed == nil && done {
			refused = nil
		}
	}
	return cmp.Or(refused, err)
}

func (c *Conn) read() (n, nBeside int, err error) {
	err = c.await(c.raw.Read, func(fd int) (err error) {
		n, nBeside, _, _, err = unix.Recvmsg(fd, c.data, c.beside, unix.MSG_CMSG_CLOEXEC)
		return err
	})
	return n, nBeside, err
}

// Receive reads one message and returns the files beside it, which are not inherited.
// io.EOF says that the other side is gone.
func (c *Conn) Receive(message received) ([]*os.File, error) {
	n, nBeside, err := c.read()
	if errors.Is(err, unix.ECONNRESET) {
		// The other side was closed with something of ours unread. The kernel
		// says so once, and before it hands out what the other side had said.
		n, nBeside, err = c.read()
	}
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	files, err := filesFrom(c.beside[:nBeside])
	if err != nil {
		return nil, err
	}
	if err := message.parse(c.data[:n]); err != nil {
		return nil, fmt.Errorf("cannot decode a message: %w", err)
	}
	return files, nil
}

func filesFrom(beside []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(beside)
	if err != nil {
		return nil, fmt.Errorf("cannot read what came beside a message: %w", err)
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return nil, fmt.Errorf("cannot read descriptors: %w", err)
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "handover"))
		}
	}
	return files, nil
}
