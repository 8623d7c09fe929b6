package hearing

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/lock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// socket is one on which every request is answered with the number of requests before it, and who asks.
type socket string

func serve(t *testing.T, mayAsk bool) socket {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	must(t, err)
	requests := make(chan lock.Request)
	h := Begin(Config{
		Listener: l, MayAsk: func(int) bool { return mayAsk }, Holds: func() int { return 3 }, Requests: requests,
	})
	ended := make(chan struct{})
	t.Cleanup(func() {
		h.End()
		close(ended)
	})
	go func() {
		for n := 0; ; n++ {
			select {
			case r := <-requests:
				_ = r.Reply(context.Background(), fmt.Appendf(nil, "[%d,%q]", n, r.From))
			case <-ended:
				return
			}
		}
	}()
	return socket(path)
}

func (s socket) dial(t *testing.T) *net.UnixConn {
	t.Helper()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: string(s)})
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// asked fails unless it is answered, and as the n-th.
func (s socket) asked(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	answer, err := Ask(ctx, s.dial(t), 0, lock.AskStatus)
	if want := fmt.Sprintf("[%d,%q]", n, UserName(os.Geteuid())); err != nil || string(answer) != want {
		t.Errorf("the answer is %s, %v; want %s", answer, err, want)
	}
}

func TestSlotHasToBeTheOneThatIsHeld(t *testing.T) {
	s := serve(t, true)
	if _, err := Ask(t.Context(), s.dial(t), 4, lock.AskStepDown); !errors.Is(err, ErrRefused) {
		t.Errorf("another slot: %v, want %v", err, ErrRefused)
	}
	if _, err := Ask(t.Context(), s.dial(t), 3, lock.AskStepDown); err != nil {
		t.Errorf("the slot that is held: %v", err)
	}
}

func TestWhatIsNoRequestChangesNothing(t *testing.T) {
	s := serve(t, true)
	for _, sent := range []string{
		"\n", "{}\n", "null\n", "[]\n", "status\n", "\x00\xff\n", `{"request":"steal"}` + "\n", `{"request":1}` + "\n",
		`{"request":"step-down"}{"request":"step-down"}` + "\n", `{"request":"step-down","slot":-1}` + "\n",
		`{"request":"step-down","slot":100000}` + "\n", `{"request":"step-down","slot":1e99}` + "\n",
		`{"request":"step-down"}` + "\n" + `{"request":"step-down"}` + "\n",
		`{"request":"step-down","x":"` + strings.Repeat("x", maxRequest) + `"}` + "\n",
		strings.Repeat("[", maxRequest-1) + "\n", strings.Repeat("x", 1<<20),
	} {
		conn := s.dial(t)
		go func() { _, _ = conn.Write([]byte(sent)) }() // it may be closed meanwhile
		if r, err := readResponse(conn); err == nil && r.Refused == "" {
			t.Errorf("%.50q is answered with %s", sent, r.Answer)
		}
	}
	s.asked(t, 0)
}

func TestWhoSaysNothingKeepsNobodyOutAndCostsLittle(t *testing.T) {
	s := serve(t, true)
	for range 2 * mostAtOnce {
		s.dial(t)
	}
	s.asked(t, 0)
	before := runtime.NumGoroutine()
	for range 200 {
		s.dial(t)
	}
	if now := runtime.NumGoroutine(); now > before+3*mostAtOnce {
		t.Errorf("%d goroutines before 200 more who say nothing, %d after", before, now)
	}
}

func TestManyWhoAreDeniedCostNoMemory(t *testing.T) {
	s := serve(t, false)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for range 2000 {
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: string(s)})
		must(t, err)
		if _, err := Ask(t.Context(), conn, 0, lock.AskReload); !errors.Is(err, lock.ErrDenied) {
			t.Fatalf("error is %v, want %v", err, lock.ErrDenied)
		}
	}
	if grown := int64(heap()) - int64(before); grown > 2<<20 {
		t.Errorf("%d bytes more after 2000 who are denied", grown)
	}
}

func TestRequestOfWhoHasGivenUpIsNotPassedOn(t *testing.T) {
	s := serve(t, true)
	for range mostAtOnce { // keep the next from being read for a second
		s.dial(t)
	}
	conn := s.dial(t)
	must(t, send(conn, request{Request: lock.AskStepDown}))
	must(t, conn.Close())
	s.asked(t, 0)
}
