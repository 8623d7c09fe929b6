package display

import (
	"context"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"go.uber.org/goleak"

	"berth/internal/inquire"
	"berth/lock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// screen is a terminal whose output a test reads.
type screen struct {
	terminal *Terminal
	tty      *os.File
	mu       sync.Mutex
	shown    strings.Builder // mu
}

func newScreen(t *testing.T, columns, rows uint16) *screen {
	t.Helper()
	control, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(tty, &pty.Winsize{Cols: columns, Rows: rows}); err != nil {
		t.Fatal(err)
	}
	s := &screen{terminal: OpenTerminal(tty), tty: tty}
	if s.terminal == nil {
		t.Fatal("a terminal is none")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 4096)
		for {
			n, err := control.Read(buffer)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.shown.Write(buffer[:n])
			s.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		tty.Close()
		<-done
		control.Close()
	})
	return s
}

// await waits until the terminal has been sent a text.
func (s *screen) await(t *testing.T, want string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		found := strings.Contains(s.shown.String(), want)
		s.mu.Unlock()
		if found {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Fatalf("the terminal does not show %q, but: %q", want, s.shown.String())
}

func TestLiveScreenShowsChangesAndLeavesTheTerminal(t *testing.T) {
	s := newScreen(t, 80, 24)
	ctx, cancel := context.WithCancel(t.Context())
	looks, ended := make(chan inquire.Seen), make(chan error, 1)
	v := View{ID: workers}
	go func() { ended <- v.Live(ctx, s.terminal, looks) }()
	s.await(t, enter)
	first := inquire.Seen{At: time.Now(), Status: lock.Status{Slots: []lock.SlotStatus{held(1, report("web1", 1, 0)),
		{Slot: 2, State: lock.SlotFree}}}}
	looks <- first
	s.await(t, "1 of 2 slots held")
	s.await(t, "web1")

	second := first
	second.Status.Slots = []lock.SlotStatus{first.Status.Slots[0], held(2, report("web2", 2, 0))}
	second.Changed = []int{2}
	looks <- second
	s.await(t, "2 of 2 slots held")
	s.await(t, reverse+"2     held   web2")

	second.Err, second.Changed = lock.ErrUnreachable, nil
	looks <- second
	s.await(t, "cannot look: unreachable")

	if err := pty.Setsize(s.tty, &pty.Winsize{Cols: 20, Rows: 3}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	s.await(t, `semaphore "workers"~`)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	s.await(t, leave)
}

func TestFileIsNoTerminal(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if OpenTerminal(file) != nil {
		t.Error("a file is taken for a terminal")
	}
}
