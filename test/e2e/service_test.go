package e2e

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asService is a shell's way to start what follows as systemd does: with variables
// that name its process, and a socket.
func asService(variables string) []string {
	return []string{"sh", "-c", variables + ` exec "$@" 3<&0 </dev/null`, "sh"}
}

func nothing(t *testing.T) *os.File {
	t.Helper()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { null.Close() })
	return null
}

func TestCommandIsToldThatItsSocketsAreForIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags []string
		want  string
	}{
		"sockets alone":             {nil, "own 1 none none none"},
		"and notifications":         {[]string{"--pass-notify", "--on-loss", "exit"}, "own 1 own 60000000 /nowhere"},
		"in a namespace of its own": {[]string{"--pid-namespace"}, "own 1 none none none"},
		"as somebody else":          {[]string{"--user", "65534", "--group", "65534"}, "own 1 none none none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := `own() { [ "$1" = $$ ] && echo own || echo "${1:-none}"; }
				[ -z "$LISTEN_PIDFDID" ] || echo "a descriptor of berth: $LISTEN_PIDFDID"
				echo $(own "$LISTEN_PID") $LISTEN_FDS $(own "$WATCHDOG_PID") ${WATCHDOG_USEC:-none} ${NOTIFY_SOCKET:-none}`
			dir := t.TempDir()
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			b := setup{
				stdin: nothing(t), // not a socket, but open
				via: asService("LISTEN_PID=$$ LISTEN_PIDFDID=1 LISTEN_FDS=1 WATCHDOG_PID=$$ " +
					"WATCHDOG_USEC=60000000 NOTIFY_SOCKET=/nowhere"),
			}.start(t, slices.Concat([]string{"run", "--broker", "local://" + dir, "--mutex", "m"}, c.flags,
				[]string{"--", "sh", "-c", script})...)
			b.wantStatus(0)
			if got := strings.TrimSpace(b.stdout()); got != c.want {
				t.Errorf("the command has %q, not %q", got, c.want)
			}
		})
	}
}

func TestCommandWithSocketsThatCannotBeExecutedIsTold(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("\x7fELF, or nearly"), 0o700); err != nil {
		t.Fatal(err)
	}
	b := setup{stdin: nothing(t), via: asService("LISTEN_PID=$$ LISTEN_FDS=1")}.start(t, "run", "--broker",
		localURL(t), "--mutex", "m", "--", program)
	b.wantStatus(126)
	if !strings.Contains(b.stderr(), "exec format error") {
		t.Error("the reason is not told")
	}
}

// notified is what a service told systemd, which is this test.
type notified struct {
	t    *testing.T
	conn *net.UnixConn
	path string
	said []string // assignments, in order
}

func listenForNotifications(t *testing.T) *notified {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &notified{t: t, conn: conn, path: path}
}

// await reads until one has begun with the text.
func (n *notified) await(text string) {
	n.t.Helper()
	_ = n.conn.SetReadDeadline(time.Now().Add(patience))
	data := make([]byte, 4096)
	for !slices.ContainsFunc(n.said, func(s string) bool { return strings.HasPrefix(s, text) }) {
		count, err := n.conn.Read(data)
		if err != nil {
			n.t.Fatalf("%s is not told; it was %q", text, n.said)
		}
		n.said = append(n.said, strings.Split(string(data[:count]), "\n")...)
	}
}

func TestServiceTellsSystemdWhatItDoes(t *testing.T) {
	t.Parallel()
	for _, where := range []place{onHost, onBroker} {
		c := where.contest(t, "mutex")
		n := listenForNotifications(t)
		holder := start(t, c.args(`echo up >>"$E2E_DIR/runs"; exec sleep 1000`)...)
		holder.awaitRuns(1)
		b := setup{env: []string{"NOTIFY_SOCKET=" + n.path}}.start(t, c.args(`exec sleep 1000`)...)
		n.await("READY=1")
		n.await("STATUS=waiting for ")
		if slices.ContainsFunc(n.said, func(s string) bool { return strings.HasPrefix(s, "STATUS=holding") }) {
			t.Errorf("a standby tells %q", n.said)
		}
		holder.signal(syscall.SIGTERM)
		n.await("STATUS=holding ")
		b.awaitLog("command started")
		b.signal(syscall.SIGTERM)
		n.await("STOPPING=1")
		n.await("EXTEND_TIMEOUT_USEC=")
		b.wantStatus(143)
		if slices.ContainsFunc(n.said, func(s string) bool { return strings.HasPrefix(s, "MAINPID") }) {
			t.Errorf("it tells %q", n.said)
		}
	}
}
