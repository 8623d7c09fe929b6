package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/internal/boottime"
	"berth/supervisor"
)

// What the supervisor tells the guard. The end of the connection says that the
// supervisor is dead.
const (
	opWill     = "will"
	opStart    = "start"
	opDeadline = "deadline"
	opSignal   = "signal"
	opFreeze   = "freeze"
	opThaw     = "thaw"
	opKill     = "kill"
)

// order is one message from the supervisor to the guard. Open files travel
// beside an opStart.
type order struct {
	Op       string           `json:"op"`
	Vars     []string         `json:"vars,omitempty"`
	Deadline boottime.Instant `json:"deadline,omitempty"`
	Signal   syscall.Signal   `json:"signal,omitempty"`
	Scope    supervisor.Scope `json:"scope,omitempty"`
	Will     []byte           `json:"will,omitempty"`

	files []*os.File
}

// The connection keeps message boundaries (SOCK_SEQPACKET, unix(7)), so that
// no message needs framing. maxMessage bounds one; what could be long, the
// command and its environment, does not travel here.
const (
	maxMessage = 64 << 10
	maxFiles   = 16
)

// socketPair returns both ends of a connection as close-on-exec descriptors.
func socketPair() (ours *net.UnixConn, theirs int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, -1, fmt.Errorf("cannot make a socket pair: %w", err)
	}
	ours, err = connection(fds[0])
	if err != nil {
		unix.Close(fds[1])
		return nil, -1, err
	}
	return ours, fds[1], nil
}

// connection takes over the descriptor.
func connection(fd int) (*net.UnixConn, error) {
	file := os.NewFile(uintptr(fd), "guard")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("descriptor %d is not the guard's connection: %w", fd, err)
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return nil, fmt.Errorf("descriptor %d is a %T, not the guard's connection", fd, conn)
	}
	return unixConn, nil
}

// getReadyToTalk has encoding/json look at the types of messages, which takes it a
// tenth of a millisecond the first time: not when a slot has been won.
func getReadyToTalk() {
	for _, message := range []any{&order{}, &supervisor.GuardEvent{}} {
		if text, err := json.Marshal(message); err == nil {
			_ = json.Unmarshal(text, message)
		}
	}
}

// send writes one message with the files beside it.
func send(conn *net.UnixConn, message any, files []*os.File) error {
	data, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("cannot encode a message: %w", err)
	}
	if len(data) > maxMessage || len(files) > maxFiles {
		return fmt.Errorf("a message of %d bytes and %d files is larger than %d and %d", len(data), len(files), maxMessage, maxFiles)
	}
	var beside []byte
	if len(files) > 0 {
		var fds []int
		for _, file := range files {
			fds = append(fds, int(file.Fd()))
		}
		beside = unix.UnixRights(fds...)
	}
	if _, _, err := conn.WriteMsgUnix(data, beside, nil); err != nil {
		return fmt.Errorf("cannot send: %w", err)
	}
	return nil
}

// inbox reads what comes on a connection. Its buffers are used again for each
// message: a deadline is renewed every second, for months.
type inbox struct {
	conn         *net.UnixConn
	data, beside []byte
}

func newInbox(conn *net.UnixConn) *inbox {
	return &inbox{conn: conn, data: make([]byte, maxMessage), beside: make([]byte, unix.CmsgSpace(maxFiles*4))}
}

// receive reads one message. io.EOF says that the other side is gone.
func (in *inbox) receive(message any) ([]*os.File, error) {
	n, nBeside, _, _, err := in.conn.ReadMsgUnix(in.data, in.beside) // sets MSG_CMSG_CLOEXEC
	if errors.Is(err, unix.ECONNRESET) {
		// The other side was closed with something of ours unread. The kernel
		// says so once, and before it hands out what the other side had said.
		n, nBeside, _, _, err = in.conn.ReadMsgUnix(in.data, in.beside)
	}
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	files, err := filesFrom(in.beside[:nBeside])
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(in.data[:n], message); err != nil {
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
