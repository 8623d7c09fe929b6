package control

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/lock"
)

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
	address, err := addressOf(pid)
	must(t, err)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: address})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
}

func TestProcessIsAskedUntilItEndsItsServer(t *testing.T) {
	s := unlogged(t, "")
	s.Begin()
	go func() {
		r := <-s.Requests()
		_ = r.Reply(context.Background(), []byte(`"`+r.Verb+`"`))
	}()
	if answer, err := AskProcess(t.Context(), os.Getpid(), lock.AskReload); err != nil || string(answer) != `"reload"` {
		t.Errorf("answer %s, %v", answer, err)
	}
	s.End()
	if _, err := AskProcess(t.Context(), os.Getpid(), lock.AskReload); !errors.Is(err, lock.ErrAbsent) {
		t.Errorf("after its end: %v, want %v", err, lock.ErrAbsent)
	}
}

func TestWhoIsNoBerthIsSaidNotToListen(t *testing.T) {
	p := process(t)
	if _, err := AskProcess(t.Context(), p.Pid, lock.AskReload); !errors.Is(err, lock.ErrAbsent) {
		t.Errorf("another program: %v, want %v", err, lock.ErrAbsent)
	}
	if _, err := AskProcess(t.Context(), 1<<22, lock.AskReload); !errors.Is(err, lock.ErrAbsent) {
		t.Errorf("no process: %v, want %v", err, lock.ErrAbsent)
	}
}

func TestWhoHasTakenANameIsNotAsked(t *testing.T) {
	p := process(t)
	takeName(t, p.Pid)
	if answer, err := AskProcess(t.Context(), p.Pid, lock.AskReload); !errors.Is(err, lock.ErrDenied) {
		t.Errorf("answer %s, %v, want %v", answer, err, lock.ErrDenied)
	}
}

// Anybody can connect, and have so many wait that the kernel takes no more.
func TestWhoCannotConnectForOthersTriesOn(t *testing.T) {
	address, err := addressOf(os.Getpid())
	must(t, err)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	must(t, err)
	file := os.NewFile(uintptr(fd), address)
	defer file.Close()
	must(t, errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: address}), unix.Listen(fd, 0)))
	other, err := net.Dial("unix", address)
	must(t, err)
	defer other.Close()
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = AskProcess(short, os.Getpid(), lock.AskReload)
	if !errors.Is(err, lock.ErrUnknown) || errors.Is(err, unix.EAGAIN) {
		t.Errorf("%v, want %v in the end", err, lock.ErrUnknown)
	}
	l, err := net.FileListener(file)
	must(t, err)
	s := unlogged(t, "")
	defer s.hearOn(l.(*net.UnixListener), nil).end()
	go func() {
		r := <-s.Requests()
		_ = r.Reply(context.Background(), []byte("{}"))
	}()
	if _, err := AskProcess(t.Context(), os.Getpid(), lock.AskReload); err != nil {
		t.Errorf("once there is room: %v", err)
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
