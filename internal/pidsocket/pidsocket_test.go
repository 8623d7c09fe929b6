package pidsocket

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"berth/internal/hearing"
	"berth/lock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// process returns one that is no berth.
func process(t *testing.T) *os.Process {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process
}

// takeName listens in the place of a process.
func takeName(t *testing.T, pid int) {
	t.Helper()
	name, err := nameOf(pid)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", address(name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
}

func TestProcessIsAskedUntilItEndsItsServer(t *testing.T) {
	s := NewServer(hclog.NewNullLogger())
	s.Begin()
	go func() {
		r := <-s.Requests()
		_ = r.Reply(context.Background(), []byte(`"`+r.Verb+`"`))
	}()
	if answer, err := Ask(t.Context(), os.Getpid(), lock.AskReload); err != nil || string(answer) != `"reload"` {
		t.Errorf("answer %s, %v", answer, err)
	}
	s.End()
	if _, err := Ask(t.Context(), os.Getpid(), lock.AskReload); !errors.Is(err, lock.ErrAbsent) {
		t.Errorf("after its end: %v, want %v", err, lock.ErrAbsent)
	}
}

func TestWhoIsNoBerthIsSaidNotToListen(t *testing.T) {
	p := process(t)
	if _, err := Ask(t.Context(), p.Pid, lock.AskReload); !errors.Is(err, lock.ErrAbsent) {
		t.Errorf("another program: %v, want %v", err, lock.ErrAbsent)
	}
	if _, err := Ask(t.Context(), 1<<22, lock.AskReload); !errors.Is(err, lock.ErrAbsent) {
		t.Errorf("no process: %v, want %v", err, lock.ErrAbsent)
	}
}

func TestWhoHasTakenANameIsNotAsked(t *testing.T) {
	p := process(t)
	takeName(t, p.Pid)
	if answer, err := Ask(t.Context(), p.Pid, lock.AskReload); !errors.Is(err, lock.ErrDenied) {
		t.Errorf("answer %s, %v, want %v", answer, err, lock.ErrDenied)
	}
}

// Anybody can connect, and have so many wait that the kernel takes no more.
func TestWhoCannotConnectForOthersTriesOn(t *testing.T) {
	name, err := nameOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: "@" + name}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	other, err := net.DialUnix("unix", nil, address(name))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Ask(short, os.Getpid(), lock.AskReload); !errors.Is(err, lock.ErrUnknown) || errors.Is(err, unix.EAGAIN) {
		t.Errorf("%v, want %v in the end", err, lock.ErrUnknown)
	}
	l, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	requests := make(chan lock.Request)
	heard := hearing.Begin(hearing.Config{
		Listener: l.(*net.UnixListener), MayAsk: func(int) bool { return true }, Requests: requests,
	})
	defer heard.End()
	go func() {
		r := <-requests
		_ = r.Reply(context.Background(), []byte("{}"))
	}()
	if _, err := Ask(t.Context(), os.Getpid(), lock.AskReload); err != nil {
		t.Errorf("once there is room: %v", err)
	}
}

func TestNameThatIsTakenKeepsNobodyFromRunning(t *testing.T) {
	takeName(t, os.Getpid())
	s := NewServer(hclog.NewNullLogger())
	if _, err := s.listen(); err == nil {
		t.Error("it listens")
	}
}

func TestUserOfAProcess(t *testing.T) {
	if got := userOf(os.Getpid()); got != os.Geteuid() {
		t.Errorf("our own is %d, want %d", got, os.Geteuid())
	}
	if got := userOf(1 << 22); got != -1 {
		t.Errorf("that of no process is %d", got)
	}
}
