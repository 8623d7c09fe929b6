package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/guard/rights"
)

// Name is the guard's argv[0]: what ps shows, and how main tells which program of this
// binary it is. The descriptor of its connection is its only argument.
const Name = "berth-guard"

// Command is what a guard is for: what may be long, and what must be known before a slot is won. The guard is told of
// it first.
type Command struct {
	Cgroup     string              // directory of the control group to make, "" for none
	Credential *syscall.Credential // nil: the command runs as the user who started berth
	Rights     rights.Rights       // the command's
	Namespace  bool                // the guard is the first process of a PID namespace
	Aside      bool                // it must not have the terminal
	Blocked    uint32              // keyboard stops that the command is to have blocked, as bits of a mask
	Dir        string              // the command's working directory, "" for the one that the guard was started in
	Enter      string              // the directory that the command enters as its user in place of Dir, "" for none
	Numbered   []string            // variables that are to have the command's process number
	Path       string              // of the command's program
	Args       []string            // from argv[0] on
	Env        []string            // the command's environment but for Order.Vars
}

// GuardArgs returns the arguments of a guard, from argv[0] on, whose end of the connection is this descriptor.
func GuardArgs(conn int) []string { return []string{Name, strconv.Itoa(conn)} }

// OpenOfArgs opens the connection that GuardArgs names, which is not inherited.
func OpenOfArgs(args []string) (*Conn, error) {
	if len(args) != 2 {
		return nil, errors.New("its argument is missing")
	}
	fd, err := strconv.Atoi(args[1])
	if err != nil {
		return nil, fmt.Errorf("%q is not a descriptor", args[1])
	}
	unix.CloseOnExec(fd)
	return Open(fd)
}

// Staged reports whether the command, with these variables and rights, is first berth's own
// program, executed as the command's user, and sets by itself what it alone can.
func Staged(numbered []string, r rights.Rights) bool { return len(numbered) > 0 || r.Staged() }

func (c Command) appendTo(data []byte) []byte {
	for _, text := range []string{c.Cgroup, c.Rights.String(), c.Dir, c.Enter, c.Path} {
		data = appendText(data, text)
	}
	for _, n := range []int64{bit(c.Namespace), bit(c.Aside), int64(c.Blocked), bit(c.Credential != nil)} {
		data = binary.AppendVarint(data, n)
	}
	if c.Credential != nil {
		for _, id := range append([]uint32{uint32(len(c.Credential.Groups)), c.Credential.Uid, c.Credential.Gid},
			c.Credential.Groups...) {
			data = binary.AppendVarint(data, int64(id))
		}
	}
	for _, texts := range [][]string{c.Numbered, c.Args, c.Env} {
		data = appendTexts(data, texts)
	}
	return data
}

func (c *Command) parse(data []byte) (err error) {
	p := parser{rest: data}
	*c = Command{Cgroup: p.text()}
	may := p.text()
	c.Dir, c.Enter, c.Path = p.text(), p.text(), p.text()
	c.Namespace, c.Aside, c.Blocked = p.number() != 0, p.number() != 0, uint32(p.number())
	if p.number() != 0 {
		groups := p.number()
		c.Credential = &syscall.Credential{Uid: uint32(p.number()), Gid: uint32(p.number())}
		for ; groups > 0 && !p.failed; groups-- {
			c.Credential.Groups = append(c.Credential.Groups, uint32(p.number()))
		}
	}
	c.Numbered, c.Args, c.Env = p.texts(), p.texts(), p.texts()
	if err = p.end(); err == nil {
		c.Rights, err = rights.Parse(may)
	}
	if err == nil && len(c.Args) == 0 {
		err = errors.New("it has no command")
	}
	return err
}

// part is one of the messages of a Command.
type part struct {
	data []byte
	more bool // another one follows
}

// partSize is far below the buffer of a socket (net.core.wmem_default, 208 KiB as a rule): the kernel refuses a message for
// which it would never have room.
const partSize = 8 << 10

func (m part) appendTo(data []byte) []byte {
	return appendText(binary.AppendVarint(data, bit(m.more)), m.data)
}

func (m *part) parse(data []byte) error {
	p := parser{rest: data}
	*m = part{more: p.number() != 0, data: p.bytes()}
	return p.end()
}

// SendCommand tells a guard what it is for. It waits for as long at most until the guard has room for all of it, and then
// for 100 ms for each part that is left. Errors: as Send.
func (c *Conn) SendCommand(command Command, timeout time.Duration) error {
	began := time.Now()
	for data := command.appendTo(nil); ; {
		size := min(len(data), partSize)
		left := max(timeout-time.Since(began), 100*time.Millisecond)
		if err := c.Send(part{data[:size], size < len(data)}, nil, left); err != nil || size == len(data) {
			return err
		}
		data = data[size:]
	}
}

// ReceiveCommand reads what SendCommand has sent. Errors: as Receive.
func (c *Conn) ReceiveCommand() (command Command, err error) {
	var data []byte
	for m := (part{more: true}); m.more; data = append(data, m.data...) {
		if _, err := c.Receive(&m); err != nil {
			return command, err
		}
	}
	return command, command.parse(data)
}
