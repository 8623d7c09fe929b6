package fault_test

import (
	"errors"
	"io"
	"net"
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
	r, err := fault.NewRelay(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	conn, err := net.Dial("tcp", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return r, conn
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
	faults, err := fault.Named(name, fault.Broker)
	if err != nil {
		t.Fatal(err)
	}
	end, err := faults[0].Strike(at)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := end(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatIsCutOffComesLater(t *testing.T) {
	r, conn := echo(t)
	say(t, conn, "one")
	hear(t, conn, "one")
	heal := strike(t, "cut", fault.Target{Link: r})
	say(t, conn, "two")
	_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := conn.Read(make([]byte, 3)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes come, %v", n, err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	heal()
	hear(t, conn, "two")
}

func TestResetIsSeenByTheClient(t *testing.T) {
	r, conn := echo(t)
	say(t, conn, "one")
	hear(t, conn, "one")
	strike(t, "reset", fault.Target{Link: r})
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v", err)
	}
	for over := time.Now().Add(patience); r.Connected() && time.Now().Before(over); {
		time.Sleep(time.Millisecond)
	}
	faults, _ := fault.Named("reset", fault.Link)
	if _, err := faults[0].Strike(fault.Target{Link: r}); !errors.Is(err, fault.ErrNothing) {
		t.Errorf("without a connection: %v", err)
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
		heal := strike(t, "stop-command", fault.Target{Client: c})
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
	if _, err := faults[0].Strike(fault.Target{Client: c}); !errors.Is(err, fault.ErrNothing) {
		t.Error(err)
	}
	c.Signal(syscall.SIGTERM)
	select {
	case <-c.Done():
	case <-time.After(patience):
		t.Error("it stands still")
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
	for _, c := range []struct {
		list string
		most fault.Needs
		want int
		err  string
	}{
		{"", fault.Broker, 0, ""},
		{"kill,cut", fault.Link, 2, ""},
		{"all", fault.Client, 5, ""},
		{"all", fault.Link, 7, ""},
		{"all", fault.Broker, len(fault.All), ""},
		{"kil", fault.Broker, 0, `no fault "kil"`},
		{"cut", fault.Client, 0, "needs a proxy"},
		{"broker-kill", fault.Link, 0, "of the prover's own"},
	} {
		faults, err := fault.Named(c.list, c.most)
		if len(faults) != c.want || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s with %d: %d, %v", c.list, c.most, len(faults), err)
		}
	}
}
