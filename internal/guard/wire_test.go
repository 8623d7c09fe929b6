package guard

import (
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/boottime"
	"berth/supervisor"
)

func connected(t *testing.T) (ours, theirs *net.UnixConn) {
	t.Helper()
	ours, fd, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err = connection(fd)
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
	sent := []order{
		{Op: opStart, Vars: []string{"A=1\n2", "B="}, Deadline: 1 << 60},
		{Op: opDeadline, Deadline: -1},
		{Op: opSignal, Signal: unix.SIGTERM, Scope: supervisor.Tree},
		{Op: opKill},
	}
	for _, o := range sent {
		if err := send(ours, o, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range sent {
		var got order
		if _, err := newInbox(theirs).receive(&got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v arrived as %+v", want, got)
		}
	}
	event := supervisor.GuardEvent{Kind: supervisor.Exited, Status: 0x0f, Left: true}
	if err := send(theirs, event, nil); err != nil {
		t.Fatal(err)
	}
	var got supervisor.GuardEvent
	if _, err := newInbox(ours).receive(&got); err != nil || got != event {
		t.Errorf("%+v arrived as %+v, %v", event, got, err)
	}
}

// A deadline is renewed every second, for months.
func TestRenewalsDoNotFillTheMemory(t *testing.T) {
	ours, theirs := connected(t)
	in := newInbox(theirs)
	const renewals = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range renewals {
		if err := send(ours, order{Op: opDeadline, Deadline: boottime.Instant(i)}, nil); err != nil {
			t.Fatal(err)
		}
		var got order
		if _, err := in.receive(&got); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / renewals; each > maxMessage/10 {
		t.Errorf("each of %d renewals has taken %d bytes of memory", renewals, each)
	}
}

func TestFilesArriveBesideAMessageAndAreNotInherited(t *testing.T) {
	ours, theirs := connected(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	if err := send(ours, order{Op: opStart}, []*os.File{write}); err != nil {
		t.Fatal(err)
	}
	write.Close()
	var got order
	files, err := newInbox(theirs).receive(&got)
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
	if err := send(ours, order{Op: opKill}, nil); err != nil {
		t.Fatal(err)
	}
	if err := send(theirs, order{Op: opKill}, nil); err != nil { // never read
		t.Fatal(err)
	}
	ours.Close()
	var got order
	if _, err := newInbox(theirs).receive(&got); err != nil || got.Op != opKill {
		t.Errorf("what was said before the end arrived as %+v, %v", got, err)
	}
	if _, err := newInbox(theirs).receive(&got); !errors.Is(err, io.EOF) {
		t.Errorf("the end is told as %v", err)
	}
}

func TestMessageThatIsTooLargeIsRefusedAndNotCut(t *testing.T) {
	ours, _ := connected(t)
	if err := send(ours, order{Op: opStart, Vars: []string{strings.Repeat("x", maxMessage)}}, nil); err == nil {
		t.Error("a message of more than maxMessage is sent")
	}
	if err := send(ours, order{Op: opStart}, make([]*os.File, maxFiles+1)); err == nil {
		t.Error("a message with more than maxFiles is sent")
	}
}

func TestLoginTravelsAsText(t *testing.T) {
	for text, login := range map[string]*Login{
		"-":                   nil,
		"0,0":                 {},
		"1000,100":            {UID: 1000, GID: 100},
		"4294967295,1,2,3,44": {UID: 4294967295, GID: 1, Groups: []uint32{2, 3, 44}},
	} {
		if got := login.String(); got != text {
			t.Errorf("%+v is written %q, want %q", login, got, text)
		}
		got, err := parseLogin(text)
		if err != nil || (got == nil) != (login == nil) || got.String() != login.String() {
			t.Errorf("%q is read as %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "1", "root", "1,", "1,-1", "1,4294967296", "-,-"} {
		if got, err := parseLogin(text); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}
