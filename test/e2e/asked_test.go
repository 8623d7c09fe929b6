package e2e

import (
	"bufio"
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// sockets returns those of a local lock's berths that are named after a slot, or that are waiting.
func (c contest) sockets(of string) []string {
	c.t.Helper()
	dir := strings.TrimPrefix(c.flags[1], "local://")
	all, err := filepath.Glob(filepath.Join(dir, c.name, "sockets", of+"-*"))
	if err != nil {
		c.t.Fatal(err)
	}
	return all
}

// ask sends a line to the one berth that has such a socket, once there is one, and returns the line that comes
// back.
func (c contest) ask(of, line string) string {
	c.t.Helper()
	until(c.t, "one socket of "+of, func() bool { return len(c.sockets(of)) == 1 })
	conn, err := net.Dial("unix", c.sockets(of)[0])
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(line + "\n")); err != nil {
		c.t.Fatal(err)
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		c.t.Fatalf("%s: the answer to %s is %q, %v", of, line, answer, err)
	}
	return answer
}

func TestAskedBerths(t *testing.T) { // a short name: a socket's path has 108 bytes at most
	t.Parallel()
	c := onHost.contest(t, "mutex")
	first := c.run(plain)
	first.awaitRunning()
	next := c.run(plain)
	for of, want := range map[string]struct {
		*berth
		slot           int
		state, command string
	}{"1": {first, 1, "running", "sh"}, "waiting": {next, 0, "waiting", "sh"}} {
		var got struct {
			Answer struct {
				PID, Slot      int
				State, Command string
				Term           uint64
			}
		}
		answer := c.ask(of, `{"request":"status"}`)
		if err := json.Unmarshal([]byte(answer), &got); err != nil {
			t.Fatal(err)
		}
		if r := got.Answer; r.PID != want.pid() || r.Slot != want.slot || r.State != want.state ||
			r.Command != want.command || (r.Term != 0) != (want.slot != 0) {
			t.Errorf("%s says %s", of, answer)
		}
	}
	if said := c.ask("waiting", `{"request":"step-down","slot":1}`); !strings.Contains(said, `"refused":`) {
		t.Errorf("who holds nothing says %s", said)
	}
	if said := c.ask("1", `{"request":"step-down","slot":1}`); said != `{"answer":{"heeded":true}}`+"\n" {
		t.Errorf("the holder says %s", said)
	}
	next.awaitRunning()
	if said := c.ask("1", `{"request":"status"}`); !strings.Contains(said, `"state":"running"`) {
		t.Errorf("the next holder says %s", said)
	}
	next.signal(syscall.SIGKILL)
	until(t, "the first one to run again", func() bool { return len(first.logged("command started")) == 2 })
	third := c.run(plain) // removes what the second has left behind
	third.awaitLog("waiting")
	until(t, "two sockets", func() bool { return len(c.sockets("*")) == 2 && len(c.sockets("1")) == 1 })
	third.signal(syscall.SIGTERM)
	first.signal(syscall.SIGTERM)
	third.wantStatus(143)
	first.wantStatus(143)
	if all := c.sockets("*"); len(all) != 0 {
		t.Errorf("left behind: %s", all)
	}
}
