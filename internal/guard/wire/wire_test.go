package wire

import (
	"errors"
	"io"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/boottime"
	"berth/internal/guard/rights"
)

func connected(t *testing.T) (ours, theirs *Conn) {
	t.Helper()
	ours, fd, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err = Open(fd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ours.Close()
		theirs.Close()
	})
	return ours, theirs
}

func TestMessagesArriveAsTheyWereSent(t *testing.T) {
	ours, theirs := connected(t)
	sent := []Order{
		{Op: OpStart, Vars: []string{"A=1\n2", "B="}, Deadline: 1 << 60, Last: true},
		{Op: OpDeadline, Deadline: -1},
		{Op: OpSignal, Signal: unix.SIGTERM, Scope: Tree},
		{Op: OpWill, Will: []byte("will\x00"), Beside: true},
		{Op: OpKill},
	}
	for _, o := range sent {
		if err := ours.Send(o, nil, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range sent {
		var got Order
		if _, err := theirs.Receive(&got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v arrived as %+v", want, got)
		}
	}
	for _, event := range []Event{
		{Kind: Exited, Status: 0x0f, Left: true},
		{Kind: NotStarted, Pid: -1, Errno: unix.ENOENT},
		{Kind: Started, Pid: 1 << 22, Terminal: true},
	} {
		if err := theirs.Send(event, nil, time.Second); err != nil {
			t.Fatal(err)
		}
		var got Event
		if _, err := ours.Receive(&got); err != nil || got != event {
			t.Errorf("%+v arrived as %+v, %v", event, got, err)
		}
	}
}

func TestReceiverWaitsForWhatComes(t *testing.T) {
	ours, theirs := connected(t)
	received := make(chan error)
	go func() {
		var got Order
		_, err := theirs.Receive(&got)
		received <- err
	}()
	select {
	case err := <-received:
		t.Fatalf("nothing was sent, and it has not waited: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if err := ours.Send(Order{Op: OpKill}, nil, time.Second); err != nil {
		t.Fatal(err)
	}
	if err := <-received; err != nil {
		t.Error(err)
	}
}

func TestNothingIsSaidOnAConnectionThatIsClosed(t *testing.T) {
	ours, _ := connected(t)
	ours.Close()
	for _, err := range []error{ours.Send(Order{Op: OpKill}, nil, time.Second), ours.SetReadDeadline(time.Time{})} {
		if err == nil || !strings.Contains(err.Error(), "use of closed file") {
			t.Error(err)
		}
	}
}

func TestConnectionThatCannotBeMadeIsAnError(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	ours, theirs, err := Pair()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, unix.EMFILE) || ours != nil || theirs != -1 {
		t.Errorf("%v, %d, %v", ours, theirs, err)
	}
}

// A deadline is renewed every second, for months.
func TestRenewalsDoNotFillTheMemory(t *testing.T) {
	ours, theirs := connected(t)
	const renewals = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range renewals {
		if err := ours.Send(Order{Op: OpDeadline, Deadline: boottime.Instant(i)}, nil, time.Second); err != nil {
			t.Fatal(err)
		}
		var got Order
		if _, err := theirs.Receive(&got); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / renewals; each > maxMessage/10 {
		t.Errorf("each of %d renewals has taken %d bytes of memory", renewals, each)
	}
}

// On a busy machine a process may not run between choosing a moment and writing.
func TestMessageForWhichThereIsRoomIsSentThoughLate(t *testing.T) {
	ours, theirs := connected(t)
	for range 10 {
		if err := ours.Send(Event{Kind: Exited, Left: true}, nil, -time.Second); err != nil {
			t.Fatal(err)
		}
		var got Event
		if _, err := theirs.Receive(&got); err != nil || got.Kind != Exited {
			t.Fatalf("%+v, %v arrived", got, err)
		}
	}
	var err error
	for range 100_000 {
		if err = ours.Send(Event{Kind: Killing}, nil, -time.Second); err != nil {
			break
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a full connection is told by %v", err)
	}
}

// A sender that comes by does not take the time of one that waits.
func TestAllSendersGiveUpOnOneWhoDoesNotRead(t *testing.T) {
	ours, _ := connected(t)
	const timeout = 100 * time.Millisecond
	for ours.Send(Event{Kind: Killing}, nil, timeout) == nil {
	}
	told := make(chan error)
	for range 4 {
		go func() {
			for range 4 {
				told <- ours.Send(Event{Kind: Killing}, nil, timeout)
			}
		}()
	}
	for range 16 {
		select {
		case err := <-told:
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a full connection is told by %v", err)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("somebody sends for ever")
		}
	}
}

func TestFilesArriveBesideAMessageAndAreNotInherited(t *testing.T) {
	ours, theirs := connected(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	if err := ours.Send(Order{Op: OpStart}, []*os.File{write}, time.Second); err != nil {
		t.Fatal(err)
	}
	write.Close()
	var got Order
	files, err := theirs.Receive(&got)
	if err != nil || len(files) != 1 {
		t.Fatalf("%d files arrived, %v", len(files), err)
	}
	if flags, err := unix.FcntlInt(files[0].Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("the file is inherited by programs: flags %d, %v", flags, err)
	}
	if _, err := files[0].WriteString("through"); err != nil {
		t.Fatal(err)
	}
	files[0].Close()
	if text, err := io.ReadAll(read); err != nil || string(text) != "through" {
		t.Errorf("%q came through the file, %v", text, err)
	}
}

func TestEndOfTheOtherSideIsToldAfterWhatItHasSaid(t *testing.T) {
	ours, theirs := connected(t)
	if err := ours.Send(Order{Op: OpKill}, nil, time.Second); err != nil {
		t.Fatal(err)
	}
	if err := theirs.Send(Order{Op: OpKill}, nil, time.Second); err != nil { // never read
		t.Fatal(err)
	}
	ours.Close()
	var got Order
	if _, err := theirs.Receive(&got); err != nil || got.Op != OpKill {
		t.Errorf("what was said before the end arrived as %+v, %v", got, err)
	}
	if _, err := theirs.Receive(&got); !errors.Is(err, io.EOF) {
		t.Errorf("the end is told as %v", err)
	}
}

func TestCommandArrivesAsItWasGiven(t *testing.T) {
	umask := uint32(0o027)
	limit, err := rights.ParseLimit("NOFILE=1024:unlimited")
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := connected(t)
	for _, want := range []Command{
		{Path: "/bin/true", Args: []string{"true"}},
		{Numbered: []string{"LISTEN_PID"}, Path: "/bin/true", Args: []string{"true"}, Env: []string{"A=1"}},
		{Args: []string{""}, Credential: &syscall.Credential{Uid: 4294967295, Gid: 1, Groups: []uint32{2, 3, 44}}},
		{
			Cgroup: "/sys/fs/cgroup/a b", Credential: &syscall.Credential{Uid: 1000}, Namespace: true, Aside: true,
			Blocked: 1<<19 | 1<<21, Dir: "/srv", Numbered: []string{"LISTEN_PID", "WATCHDOG_PID"},
			Rights: rights.Rights{Confined: true, NoNewPrivileges: true, NoTyping: true, Umask: &umask,
				Limits: []rights.Limit{limit}},
			Enter: "/a b,c", Path: "-", Args: []string{"-", "", "own"}, Env: []string{"", "GOGC=1", "A=1\n2"},
		},
	} {
		if err := ours.SendCommand(want, time.Second); err != nil {
			t.Fatal(err)
		}
		if got, err := theirs.ReceiveCommand(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v arrived as %+v, %v", want, got, err)
		}
	}
}

func TestCommandSetsByItselfWhatOnlyItCan(t *testing.T) {
	limit, err := rights.ParseLimit("NOFILE=1024:unlimited")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		numbered []string
		rights   rights.Rights
		want     bool
	}{
		{nil, rights.Rights{}, false},
		{[]string{}, rights.Rights{}, false},
		{[]string{"LISTEN_PID"}, rights.Rights{}, true},
		{nil, rights.Rights{Limits: []rights.Limit{limit}}, true},
	} {
		if got := Staged(c.numbered, c.rights); got != c.want {
			t.Errorf("%q, %v: %v", c.numbered, c.rights, got)
		}
	}
}

// A reader that does not read for a moment, as on a busy machine, is waited for.
func TestSenderWaitsUntilThereIsRoom(t *testing.T) {
	ours, theirs := connected(t)
	sent := 0
	for ours.Send(Event{Kind: Killing, Pid: sent}, nil, time.Millisecond) == nil {
		sent++
	}
	done := make(chan error, 1)
	go func() { done <- ours.Send(Event{Kind: Dead, Pid: sent}, nil, time.Minute) }()
	select {
	case err := <-done:
		t.Fatalf("there was no room, and it has not waited: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	for i := range sent + 1 {
		var got Event
		if _, err := theirs.Receive(&got); err != nil || got.Pid != i {
			t.Fatalf("message %d arrived as %+v, %v", i, got, err)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestLargestMessageArrives(t *testing.T) {
	ours, theirs := connected(t)
	empty := len(Order{Op: OpStart, Vars: []string{strings.Repeat("x", maxMessage/2)}}.appendTo(nil)) - maxMessage/2
	order := Order{Op: OpStart, Vars: []string{strings.Repeat("x", maxMessage-empty)}}
	files := slices.Repeat([]*os.File{os.Stdin}, maxFiles)
	if err := ours.Send(order, files, time.Second); err != nil {
		t.Fatal(err)
	}
	var got Order
	arrived, err := theirs.Receive(&got)
	if err != nil || len(arrived) != maxFiles || !slices.Equal(got.Vars, order.Vars) {
		t.Errorf("%d files, %v", len(arrived), err)
	}
	for _, file := range arrived {
		file.Close()
	}
	order.Vars[0] += "x"
	if err := ours.Send(order, nil, time.Second); err == nil || !strings.Contains(err.Error(), "is larger than") {
		t.Errorf("a larger one: %v", err)
	}
}

// A process that was stopped has everything at once: the time that is over, and what has arrived in it.
func TestMessageThatHasArrivedIsReceivedThoughLate(t *testing.T) {
	ours, theirs := connected(t)
	if err := theirs.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := ours.Send(Event{Kind: Killing, Pid: i}, nil, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		var got Event
		if _, err := theirs.Receive(&got); err != nil || got.Pid != i {
			t.Fatalf("message %d arrived as %+v, %v", i, got, err)
		}
	}
}

func TestReceiverNeedNotWaitForEver(t *testing.T) {
	ours, theirs := connected(t)
	if err := theirs.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	var got Order
	if _, err := theirs.Receive(&got); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("nothing has come: %v", err)
	}
	if err := theirs.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := ours.Send(Order{Op: OpKill}, nil, time.Second); err != nil {
		t.Fatal(err)
	}
	theirs.SayNoMore()
	if _, err := theirs.Receive(&got); err != nil || got.Op != OpKill {
		t.Errorf("what was said before: %+v, %v", got, err)
	}
	if _, err := theirs.Receive(&got); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
}
