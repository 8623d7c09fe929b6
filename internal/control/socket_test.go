package control

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

	"berth/lock"
)

// dialed is a connection to the only socket.
func (c Client) dialed(t *testing.T) *net.UnixConn {
	t.Helper()
	conn, err := c.dial(t.Context(), one(t, c))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// asked fails unless it is answered, and as the n-th.
func (c Client) asked(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	answer, err := c.Ask(ctx, one(t, c), 0, lock.AskStatus)
	if want := fmt.Sprintf(`{"n":%d,`, n); err != nil || !strings.HasPrefix(string(answer), want) {
		t.Errorf("the answer is %s, %v; want %s", answer, err, want)
	}
}

func TestWhatIsNoRequestChangesNothing(t *testing.T) {
	_, c := serve(t, filepath.Join(t.TempDir(), "sockets"))
	for _, sent := range []string{
		"\n", "{}\n", "null\n", "[]\n", "status\n", "\x00\xff\n", `{"request":"steal"}` + "\n", `{"request":1}` + "\n",
		`{"request":"step-down"}{"request":"step-down"}` + "\n", `{"request":"step-down","slot":-1}` + "\n",
		`{"request":"step-down","slot":100000}` + "\n", `{"request":"step-down","slot":1e99}` + "\n",
		`{"request":"step-down"}` + "\n" + `{"request":"step-down"}` + "\n",
		`{"request":"step-down","x":"` + strings.Repeat("x", maxRequest) + `"}` + "\n",
		strings.Repeat("[", maxRequest-1) + "\n", strings.Repeat("x", 1<<20),
	} {
		conn := c.dialed(t)
		go func() { _, _ = conn.Write([]byte(sent)) }() // it may be closed meanwhile
		if r, err := readResponse(conn); err == nil && r.Refused == "" {
			t.Errorf("%.50q is answered with %s", sent, r.Answer)
		}
	}
	c.asked(t, 0)
}

func TestWhoSaysNothingKeepsNobodyOutAndCostsLittle(t *testing.T) {
	_, c := serve(t, filepath.Join(t.TempDir(), "sockets"))
	for range 2 * maxAtOnce {
		c.dialed(t)
	}
	c.asked(t, 0)
	before := runtime.NumGoroutine()
	for range 200 {
		c.dialed(t)
	}
	if now := runtime.NumGoroutine(); now > before+3*maxAtOnce {
		t.Errorf("%d goroutines before 200 more who say nothing, %d after", before, now)
	}
}

func TestManyWhoAreDeniedCostNoMemory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sockets")
	must(t, os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755))
	_, c := serve(t, dir, "daemon")
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	asNobody(t, func() error {
		for range 2000 {
			if _, err := c.Ask(t.Context(), one(t, c), 0, lock.AskReload); !errors.Is(err, lock.ErrDenied) {
				return fmt.Errorf("error is %w, want %w", err, lock.ErrDenied)
			}
		}
		return nil
	})
	if grown := int64(heap()) - int64(before); grown > 2<<20 {
		t.Errorf("%d bytes more after 2000 who are denied", grown)
	}
}

func TestRequestOfWhoHasGivenUpIsNotPassedOn(t *testing.T) {
	_, c := serve(t, filepath.Join(t.TempDir(), "sockets"))
	for range maxAtOnce { // keep the next from being read for a second
		c.dialed(t)
	}
	conn := c.dialed(t)
	must(t, send(conn, request{Request: lock.AskStepDown}))
	must(t, conn.Close())
	c.asked(t, 0)
}
