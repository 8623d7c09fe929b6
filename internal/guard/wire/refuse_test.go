package wire

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Only files come beside a message.
func TestWhatElseComesBesideAMessageIsRefused(t *testing.T) {
	ours, theirs := connected(t)
	if err := unix.SetsockoptInt(int(theirs.file.Fd()), unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		t.Fatal(err)
	}
	if err := ours.Send(Order{Op: OpKill}, nil, time.Second); err != nil {
		t.Fatal(err)
	}
	var got Order
	if files, err := theirs.Receive(&got); err == nil || !strings.Contains(err.Error(), "cannot read descriptors") {
		t.Errorf("%v, %v", files, err)
	}
	if files, err := filesFrom(make([]byte, unix.CmsgSpace(4))); err == nil ||
		!strings.Contains(err.Error(), "cannot read what came beside") {
		t.Errorf("%v, %v", files, err)
	}
}

func TestMessageThatIsTooLargeIsRefusedAndNotCut(t *testing.T) {
	ours, _ := connected(t)
	if err := ours.Send(Order{Op: OpStart, Vars: []string{strings.Repeat("x", maxMessage)}}, nil,
		time.Second); err == nil {
		t.Error("a message of more than maxMessage is sent")
	}
	files := slices.Repeat([]*os.File{os.Stdin}, maxFiles+1)
	if err := ours.Send(Order{Op: OpStart}, files, time.Second); err == nil {
		t.Error("a message with more than maxFiles is sent")
	}
}

func TestMessageThatIsCutIsRefused(t *testing.T) {
	order := Order{Op: OpStart, Vars: []string{"A=1", "B=2"}, Deadline: 1 << 40, Will: []byte("will"),
		Beside: true}
	whole := order.appendTo(nil)
	for size := range whole {
		var got Order
		if err := got.parse(whole[:size]); err == nil {
			t.Errorf("%d of %d bytes are taken for %+v", size, len(whole), got)
		}
	}
	var got Order
	if err := got.parse(append(whole, 0)); err == nil {
		t.Error("what follows the message is overlooked")
	}
}

func TestMessageThatCountsWrongIsRefused(t *testing.T) {
	number := func(n int64) []byte { return binary.AppendVarint(nil, n) }
	before := Order{Op: OpStart}.appendTo(nil)
	before = before[:len(before)-1] // without the number of variables
	for name, data := range map[string][]byte{
		"a length below zero":         number(-1),
		"a longer text":               append(number(3), "ab"...),
		"a longer text than an order": append(number(100), make([]byte, 7)...), // and nothing after it
		"a longer text than an event": append(number(100), make([]byte, 5)...),
		"the longest text":            append(number(math.MaxInt64), "ab"...),
		"no end of a number":          {0x80},
		"a number that is too long":   []byte(strings.Repeat("\xff", 11)),
		"more variables":              slices.Concat(before, number(2), number(1), []byte("a")),
		"more variables than fit":     slices.Concat(before, number(math.MaxInt64)),
		"a variable below zero":       slices.Concat(before, number(1), number(-1)),
		"variables that are not told": slices.Concat(before, number(0), number(1), []byte("a")),
	} {
		var o Order
		if err := o.parse(data); !errors.Is(err, errCut) {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
		var e Event
		if err := e.parse(data); !errors.Is(err, errCut) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
	ours, theirs := connected(t)
	if err := unix.Send(int(ours.file.Fd()), number(-1), 0); err != nil {
		t.Fatal(err)
	}
	var o Order
	if _, err := theirs.Receive(&o); !errors.Is(err, errCut) {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestDescriptorThatIsNoConnectionIsRefused(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[1])
	for _, fd := range []int{fds[0], -1} {
		if c, err := Open(fd); err == nil || c != nil {
			t.Errorf("%d: %v", fd, err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); !errors.Is(err, unix.EBADF) {
			t.Errorf("%d stays open: %v", fd, err)
		}
	}
}

func TestCommandThatCannotBeIsRefused(t *testing.T) {
	whole := Command{
		Path: "/bin/true", Args: []string{"true"}, Env: []string{"A=1"},
		Credential: &syscall.Credential{Uid: 1, Gid: 2, Groups: []uint32{3}},
	}.appendTo(nil)
	var got Command
	if err := got.parse(whole); err != nil {
		t.Fatal(err)
	}
	for size := range whole {
		if err := got.parse(whole[:size]); err == nil {
			t.Errorf("%d of %d bytes are taken for %+v", size, len(whole), got)
		}
	}
	if err := got.parse(append(whole, 0)); err == nil {
		t.Error("what follows the command is overlooked")
	}
	if err := got.parse(Command{Path: "/bin/true"}.appendTo(nil)); err == nil {
		t.Errorf("without arguments: %+v", got)
	}
	many := Command{Args: []string{""}, Credential: &syscall.Credential{}}.appendTo(nil)
	many[9] = 0x7e // groups that are not told
	if err := got.parse(many); err == nil {
		t.Errorf("with groups that are not told: %+v", got)
	}
	for _, args := range [][]string{{Name}, {Name, "x"}, {Name, "-1"}, {Name, "0", "1"}} {
		if c, err := OpenOfArgs(args); err == nil {
			t.Errorf("%q: %v", args, c)
		}
	}
}

// However small the buffers of sockets are (net.core.wmem_default).
func TestLongCommandArrivesWhole(t *testing.T) {
	ours, theirs := connected(t)
	var set error
	err := ours.raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 32<<10) })
	if err = errors.Join(err, set); err != nil {
		t.Fatal(err)
	}
	want := Command{Path: "/bin/true", Args: []string{"true", strings.Repeat("x", 100<<10)},
		Env: slices.Repeat([]string{"A=" + strings.Repeat("y", 1000)}, 1000)}
	sent := make(chan error, 1)
	go func() {
		sent <- ours.SendCommand(want, 10*time.Second)
		ours.Close()
	}()
	got, err := theirs.ReceiveCommand()
	if err = errors.Join(err, <-sent); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%d bytes arrive, not %d: %v", len(got.appendTo(nil)), len(want.appendTo(nil)), err)
	}
}

func TestCommandThatIsBrokenOffIsNone(t *testing.T) {
	ours, theirs := connected(t)
	if err := ours.Send(part{data: []byte("x"), more: true}, nil, time.Second); err != nil {
		t.Fatal(err)
	}
	ours.Close()
	if got, err := theirs.ReceiveCommand(); !errors.Is(err, io.EOF) {
		t.Errorf("%+v, %v", got, err)
	}
}
