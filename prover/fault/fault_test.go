package fault_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/prover/fault"
	"berth/test/process"
)

// command is the argument that makes the test's binary a command under a lock.
const command = "command"

func TestMain(m *testing.M) {
	if os.Args[len(os.Args)-1] == command {
		time.Sleep(3 * patience)
	}
	goleak.VerifyTestMain(m)
}

const patience = 20 * time.Second

// echo starts a server that sends back what comes, and a client of it through a relay.
func echo(t *testing.T) (*fault.Relay, net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				conn.Close()
			}()
		}
	}()
	r, err := fault.NewRelay(&url.URL{Scheme: "tcp", Host: listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r, dial(t, r.URL())
}

func dial(t *testing.T, server string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(server, "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}

func say(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := conn.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

// strike has the fault of that name strike.
func strike(t *testing.T, name string, at fault.Target) (heal func()) {
	t.Helper()
	faults, err := fault.Named(name, fault.Nodes)
	if err != nil {
		t.Fatal(err)
	}
	end, err := faults[0].Strike(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := end(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// sides starts a server, and a client of it through a relay, and returns both ends.
func sides(t *testing.T) (r *fault.Relay, client, server net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if r, err = fault.NewRelay(&url.URL{Scheme: "tcp", Host: listener.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	client = dial(t, r.URL())
	if server, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	_ = server.SetDeadline(time.Now().Add(patience))
	return r, client, server
}

// deaf fails the test if anything comes.
func deaf(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := conn.Read(make([]byte, 3)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes come, %v", n, err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(patience))
}

func TestWhatIsCutOffComesLater(t *testing.T) {
	for name, kept := range map[string]struct{ out, in bool }{"cut": {true, true}, "cut-out": {out: true}, "cut-in": {in: true}} {
		r, client, server := sides(t)
		heal := strike(t, name, fault.Target{Link: r})
		for _, way := range []struct {
			from, to net.Conn
			kept     bool
		}{{client, server, kept.out}, {server, client, kept.in}} {
			say(t, way.from, "one")
			if way.kept {
				deaf(t, way.to)
				defer hear(t, way.to, "one")
			} else {
				hear(t, way.to, "one")
			}
		}
		heal()
	}
}

func TestEndIsCutOffToo(t *testing.T) {
	r, client, server := sides(t)
	heal := strike(t, "cut-out", fault.Target{Link: r})
	client.Close()
	deaf(t, server)
	heal()
	if _, err := server.Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
}

func TestOneCutLastsWhenAnotherIsHealed(t *testing.T) {
	r, client, server := sides(t)
	heal := strike(t, "cut", fault.Target{Link: r})
	other := strike(t, "cut-out", fault.Target{Link: r})
	heal()
	say(t, client, "one")
	deaf(t, server)
	other()
	hear(t, server, "one")
}

// The bounds are below what the faults take, and far above what it takes without them.
func TestDelayedAndDrippingBytesTakeTheirTime(t *testing.T) {
	for name, least := range map[string]time.Duration{"delay": 400 * time.Millisecond, "drip": 100 * time.Millisecond} {
		r, conn := echo(t)
		text := strings.Repeat("0123456789", 7)
		takes := func() time.Duration {
			began := time.Now()
			say(t, conn, text)
			hear(t, conn, text)
			return time.Since(began)
		}
		heal := strike(t, name, fault.Target{Link: r})
		if took := takes(); took < least {
			t.Errorf("%s: %s", name, took)
		}
		heal()
		for over := time.Now().Add(patience); takes() >= least; {
			if time.Now().After(over) {
				t.Fatalf("%s lasts when it is healed", name)
			}
		}
	}
}

func TestRelayIsBeforeEachNode(t *testing.T) {
	var nodes []*url.URL
	for range 2 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		nodes = append(nodes, &url.URL{Scheme: "tcp", Host: listener.Addr().String()})
		go func() {
			if conn, err := listener.Accept(); err == nil {
				_, _ = conn.Write([]byte(listener.Addr().String()))
				conn.Close()
			}
		}()
	}
	r, err := fault.NewRelay(nodes...)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	urls := strings.Split(r.URL(), ",")
	if len(urls) != len(nodes) {
		t.Fatalf("%q", urls)
	}
	for i, u := range urls {
		hear(t, dial(t, u), nodes[i].Host)
	}
}

func TestResetIsSeenByTheClient(t *testing.T) {
	r, conn := echo(t)
	say(t, conn, "one")
	hear(t, conn, "one")
	strike(t, "reset", fault.Target{Link: r})
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v", err)
	}
	faults, _ := fault.Named("reset", fault.Link)
	again := func() error {
		_, err := faults[0].Strike(t.Context(), fault.Target{Link: r})
		return err
	}
	for over := time.Now().Add(patience); !errors.Is(again(), fault.ErrNothing); time.Sleep(time.Millisecond) {
		if time.Now().After(over) {
			t.Fatal("a connection that was reset is reset again")
		}
	}
}

// client is a process that faults strike.
type client struct{ *process.Process }

func (c client) Signal(sig syscall.Signal) { _ = c.Process.Signal(sig) }

func run(t *testing.T, script string) client {
	t.Helper()
	p, err := process.Start(exec.Command("sh", "-c", script))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
		p.End(0)
	})
	return client{p}
}

func TestSignalsReachTheClient(t *testing.T) {
	for name, want := range map[string]syscall.Signal{"kill": syscall.SIGKILL, "term": syscall.SIGTERM} {
		c := run(t, "exec sleep 60")
		strike(t, name, fault.Target{Client: c})
		c.End(patience)
		if got := c.State().Sys().(syscall.WaitStatus).Signal(); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestStoppedClientGoesOn(t *testing.T) {
	c := run(t, "exec sleep 60")
	heal := strike(t, "stop", fault.Target{Client: c})
	if err := process.AwaitStopped(c.PID(), patience); err != nil {
		t.Error(err)
	}
	heal()
	c.Signal(syscall.SIGTERM)
	select {
	case <-c.Done():
	case <-time.After(patience):
		t.Error("it does not go on")
	}
}

// await waits until a client has started a command, or has become one, and returns it.
func (c client) await(t *testing.T) (pid int) {
	t.Helper()
	for over := time.Now().Add(patience); time.Now().Before(over); time.Sleep(time.Millisecond) {
		for _, pid := range append(process.Descendants(c.PID()), c.PID()) {
			if process.Executable(pid) == process.Executable(os.Getpid()) {
				return pid
			}
		}
	}
	t.Fatal("the command does not start")
	return 0
}

func TestClientAndItsCommandStandStillTogether(t *testing.T) {
	for _, script := range []string{os.Args[0] + " " + command + "; exit 7", "exec " + os.Args[0] + " " + command} {
		c := run(t, script)
		its := c.await(t)
		heal := strike(t, "stop-command", fault.Target{Client: c, Command: func() int { return its }})
		if err := errors.Join(process.AwaitStopped(its, patience), process.AwaitStopped(c.PID(), patience)); err != nil {
			t.Error(err)
		}
		heal()
		_ = syscall.Kill(its, syscall.SIGTERM)
		select {
		case <-c.Done():
		case <-time.After(patience):
			t.Errorf("%s: one of both does not go on", script)
		}
	}
}

func TestClientWithoutACommandIsNotStopped(t *testing.T) {
	c := run(t, "exec sleep 60")
	faults, _ := fault.Named("stop-command", fault.Client)
	if _, err := faults[0].Strike(t.Context(), fault.Target{Client: c, Command: func() int { return 0 }}); !errors.Is(err, fault.ErrNothing) {
		t.Error(err)
	}
	c.Signal(syscall.SIGTERM)
	select {
	case <-c.Done():
	case <-time.After(patience):
		t.Error("it stands still")
	}
}

func TestFrozenClientStandsStillWithAllThatItHasStarted(t *testing.T) {
	c := run(t, "sleep 60 & setsid sleep 61 & wait")
	tree := func() []int { return append(process.Descendants(c.PID()), c.PID()) }
	for over := time.Now().Add(patience); len(tree()) < 3 && time.Now().Before(over); {
		time.Sleep(time.Millisecond)
	}
	all := tree()
	heal := strike(t, "freeze", fault.Target{Client: c, Tree: tree})
	for _, pid := range all {
		if err := process.AwaitStopped(pid, patience); err != nil || len(all) != 3 {
			t.Errorf("%v of %d", err, len(all))
		}
	}
	heal()
	for _, pid := range all {
		for over := time.Now().Add(patience); process.AwaitStopped(pid, time.Millisecond) == nil; {
			if time.Now().After(over) {
				t.Fatalf("process %d does not go on", pid)
			}
		}
	}
}

func TestChildIsKilledAndNotItsParent(t *testing.T) {
	c := run(t, "sleep 60; exit 7")
	for over := time.Now().Add(patience); len(process.Descendants(c.PID())) == 0 && time.Now().Before(over); {
		time.Sleep(time.Millisecond)
	}
	strike(t, "kill-child", fault.Target{Client: c})
	c.End(patience)
	if status := c.State().ExitCode(); status != 7 {
		t.Errorf("status %d", status)
	}
}

func TestFaultsAreThoseThatCanBe(t *testing.T) {
	own := fault.Command("resize", nil)
	for _, c := range []struct {
		list string
		most fault.Needs
		want int
		err  string
	}{
		{"", fault.Broker, 0, ""},
		{"kill,cut", fault.Link, 2, ""},
		{"all", fault.Client, 6 + 1, ""},
		{"all", fault.Link, 12 + 1, ""},
		{"all", fault.Broker, 17 + 1, ""},
		{"all", fault.Nodes, len(fault.All) + 1, ""},
		{"kill,resize", fault.Client, 2, ""},
		{"kil", fault.Broker, 0, `no fault "kil"`},
		{"cut", fault.Client, 0, "needs a proxy"},
		{"broker-kill", fault.Link, 0, "of the prover's own"},
		{"node-cut", fault.Broker, 0, "--nodes 3"},
	} {
		faults, err := fault.Named(c.list, c.most, own)
		if len(faults) != c.want || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s with %d: %d, %v", c.list, c.most, len(faults), err)
		}
	}
}

func TestCommandThatFailsIsNoBreakage(t *testing.T) {
	why := errors.New("status 1")
	for _, want := range []error{nil, why} {
		_, err := fault.Command("resize", func(context.Context) error { return want }).Strike(t.Context(), fault.Target{})
		if !errors.Is(err, want) || errors.Is(err, fault.ErrFailed) != (want != nil) {
			t.Errorf("%v: %v", want, err)
		}
	}
}
