package observe

import (
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/lock"
	"berth/supervisor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

// manager is systemd's end of the socket.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
	said map[string]string // by the name of the assignment, the last of each
}

func listen(t *testing.T) *manager {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_PID", "")
	t.Setenv("WATCHDOG_USEC", "")
	return &manager{t: t, conn: conn, said: make(map[string]string)}
}

// await reads until name=value was said.
func (m *manager) await(name, value string) {
	m.t.Helper()
	_ = m.conn.SetReadDeadline(time.Now().Add(patience))
	for m.said[name] != value {
		if !m.read() {
			m.t.Fatalf("%s=%s is not said; the last of all are %v", name, value, m.said)
		}
	}
}

func (m *manager) read() bool {
	data := make([]byte, 4096)
	n, err := m.conn.Read(data)
	if err != nil {
		return false
	}
	for line := range strings.SplitSeq(string(data[:n]), "\n") {
		name, value, _ := strings.Cut(line, "=")
		m.said[name] = value
	}
	return true
}

// all returns what was said until now, and forgets it.
func (m *manager) all() map[string]string {
	_ = m.conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	for m.read() {
	}
	said := maps.Clone(m.said)
	clear(m.said)
	return said
}

var workers = lock.ID{Kind: lock.Semaphore, Name: "workers"}

func start(t *testing.T, cfg SystemdConfig) *Systemd {
	t.Helper()
	cfg.Lock = workers
	s, err := NewSystemd(cfg)
	if err != nil || s == nil {
		t.Fatalf("%v, error %v", s, err)
	}
	return s
}

func TestServiceIsReadyWhenItIsInLine(t *testing.T) {
	for _, c := range []struct {
		ready      Ready
		passed     bool
		at         supervisor.State // when READY comes, "": never
		extensions bool             // in line, the start may go on taking time
	}{
		{Waiting, false, supervisor.Waiting, false},
		{Holding, false, supervisor.Running, true},
		{Waiting, true, "", true},
	} {
		t.Run(string(c.ready)+" "+strconv.FormatBool(c.passed), func(t *testing.T) {
			m := listen(t)
			s := start(t, SystemdConfig{Ready: c.ready, Passed: c.passed})
			for _, state := range []supervisor.State{supervisor.Connecting, supervisor.Pausing, supervisor.Attempting,
				supervisor.Waiting, supervisor.Preparing, supervisor.Entering, supervisor.Starting, supervisor.Running,
				supervisor.InDoubt} {
				s.Observe(supervisor.Situation{State: state})
				if state == supervisor.Waiting {
					s.Beat()
				}
				s.say("PASSED", string(state))
				m.await("PASSED", string(state))
				said := m.all()
				if (said["READY"] == "1") != (state == c.at) {
					t.Errorf("%s: it says %v", state, said)
				}
				if state == supervisor.Waiting && (said["EXTEND_TIMEOUT_USEC"] != "") != c.extensions {
					t.Errorf("in line it says %v", said)
				}
			}
			s.Close()
		})
	}
}

func TestStatusSaysWhatIsHeld(t *testing.T) {
	m := listen(t)
	s := start(t, SystemdConfig{})
	defer s.Close()
	s.Observe(supervisor.Situation{State: supervisor.Pausing, Waiting: "no broker answers"})
	m.await("STATUS", "connecting, to wait for workers: no broker answers")
	s.Observe(supervisor.Situation{State: supervisor.Running, Slot: 2, Term: 7, Pid: 12})
	m.await("STATUS", "holding slot 2 of workers, term 7")
	s.Observe(supervisor.Situation{State: supervisor.Losing, Slot: 2, Term: 7})
	m.await("STATUS", "holding slot 2 of workers, term 7, lost: ending the command")
	for state, want := range map[supervisor.State]string{
		supervisor.Entering:  "holding slot 2 of workers, term 7: running on_acquire",
		supervisor.Leaving:   "holding slot 2 of workers, term 7: running on_release",
		supervisor.Reporting: "lost workers: running on_lost",
	} {
		s.Observe(supervisor.Situation{State: state, Slot: 2, Term: 7})
		m.await("STATUS", want)
	}
	if said := m.all(); said["STOPPING"] != "" {
		t.Errorf("it says that the service stops, which goes on: %v", said)
	}
}

func TestEndIsToldWithTheTimeThatItTakes(t *testing.T) {
	m := listen(t)
	s := start(t, SystemdConfig{})
	s.Observe(supervisor.Situation{State: supervisor.Running, Slot: 1})
	s.Observe(supervisor.Situation{State: supervisor.Stopping, Slot: 1, Ending: true,
		KillAt: time.Now().Add(5 * time.Minute)})
	m.await("STOPPING", "1")
	extended := func() time.Duration {
		usec, _ := strconv.ParseInt(m.all()["EXTEND_TIMEOUT_USEC"], 10, 64)
		return time.Duration(usec) * time.Microsecond
	}
	if d := extended(); d < 5*time.Minute || d > 5*time.Minute+afterKill {
		t.Errorf("it asks for %s", d)
	}
	s.Observe(supervisor.Situation{State: supervisor.Leaving, Slot: 1, Ending: true,
		KillAt: time.Now().Add(9 * time.Minute)})
	m.await("STATUS", "holding slot 1 of workers: running on_release")
	if d := extended(); d < 8*time.Minute {
		t.Errorf("for on_release it asks for %s", d)
	}
	s.Observe(supervisor.Situation{State: supervisor.Releasing, Slot: 1, Ending: true})
	s.Observe(supervisor.Situation{State: supervisor.Ended, Ending: true})
	s.Close()
	m.await("STATUS", "ending")
	if said := m.all(); said["STOPPING"] != "" {
		t.Errorf("the end is told again: %v", said)
	}
}

// KILL does not end a process that waits in the kernel for ever.
func TestStopThatDoesNotEndIsLeftToSystemd(t *testing.T) {
	m := listen(t)
	s := start(t, SystemdConfig{})
	defer s.Close()
	for _, step := range []struct {
		since time.Duration // KILL
		asks  bool
	}{
		{-time.Minute, true}, {afterKill / 2, true}, {2 * afterKill, false},
	} {
		most := afterKill - step.since
		killAt := time.Now().Add(-step.since)
		s.Observe(supervisor.Situation{State: supervisor.Stopping, Slot: 1, Ending: true, KillAt: killAt})
		s.Beat()
		s.say("PASSED", step.since.String())
		m.await("PASSED", step.since.String())
		asked := m.all()["EXTEND_TIMEOUT_USEC"]
		usec, _ := strconv.ParseInt(asked, 10, 64)
		if (asked != "") != step.asks || asked != "" && time.Duration(usec)*time.Microsecond > most {
			t.Errorf("%s after KILL it asks for %q us", step.since, asked)
		}
	}
}

func TestWatchdogIsServedByWhoIsThere(t *testing.T) {
	for name, c := range map[string]struct {
		pid            int
		passed         bool
		waiting, holds bool // whether berth serves it
	}{
		"berth":                 {os.Getpid(), false, true, true},
		"somebody else's":       {1, false, false, false},
		"passed to the command": {os.Getpid(), true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := listen(t)
			t.Setenv("WATCHDOG_PID", strconv.Itoa(c.pid))
			t.Setenv("WATCHDOG_USEC", "3000000")
			s := start(t, SystemdConfig{Passed: c.passed})
			defer s.Close()
			if c.waiting && s.Beats() != 1500*time.Millisecond {
				t.Errorf("a beat every %s", s.Beats())
			}
			for _, step := range []struct {
				now    supervisor.Situation
				serves bool
			}{
				{supervisor.Situation{State: supervisor.Waiting}, c.waiting},
				{supervisor.Situation{State: supervisor.Running, Pid: 12}, c.holds},
				{supervisor.Situation{State: supervisor.InDoubt, Pid: 12, Frozen: true}, c.waiting},
				{supervisor.Situation{State: supervisor.Stopping, Slot: 1}, c.waiting}, // its first process has ended
			} {
				s.Observe(step.now)
				s.Beat()
				s.say("PASSED", string(step.now.State))
				m.await("PASSED", string(step.now.State))
				if said := m.all(); (said["WATCHDOG"] == "1") != step.serves {
					t.Errorf("%s: it says %v", step.now.State, said)
				}
			}
		})
	}
}

// A supervisor has a slot to keep.
func TestNobodyWaitsForAManagerThatDoesNotRead(t *testing.T) {
	m := listen(t)
	s := start(t, SystemdConfig{})
	over := make(chan struct{})
	go func() {
		defer close(over)
		for n := range 10_000 {
			s.Observe(supervisor.Situation{State: supervisor.Running, Slot: n + 1})
		}
	}()
	select {
	case <-over:
	case <-time.After(patience):
		t.Error("it waits")
	}
	go func() {
		for m.read() {
		}
	}()
	_ = m.conn.SetReadDeadline(time.Now().Add(patience))
	s.Close()
	<-s.done
	m.conn.Close()
}

func TestWithoutSystemdNothingIsTold(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	s, err := NewSystemd(SystemdConfig{})
	if s != nil || err != nil {
		t.Errorf("%v, error %v", s, err)
	}
	s.Observe(supervisor.Situation{State: supervisor.Ended})
	s.Close()
	if s.Beats() != 0 {
		t.Errorf("a beat every %s", s.Beats())
	}
	t.Setenv("NOTIFY_SOCKET", "/nowhere")
	t.Setenv("WATCHDOG_USEC", "soon")
	if s, err := NewSystemd(SystemdConfig{}); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, error %v", s, err)
	}
}

// Others wait for a service that starts, the end of the boot for example.
func TestStartIsNotExtendedWithoutABroker(t *testing.T) {
	m := listen(t)
	s := start(t, SystemdConfig{Ready: Holding})
	defer s.Close()
	for _, step := range []struct {
		state    supervisor.State
		extended bool
	}{
		{supervisor.Connecting, false}, {supervisor.Pausing, false}, {supervisor.Waiting, true}, {supervisor.Pausing,
			false},
	} {
		s.Observe(supervisor.Situation{State: step.state})
		s.Beat()
		s.say("PASSED", string(step.state))
		m.await("PASSED", string(step.state))
		if said := m.all(); (said["EXTEND_TIMEOUT_USEC"] != "") != step.extended {
			t.Errorf("%s: it says %v", step.state, said)
		}
	}
}

func TestCommandThatTellsByItselfHasTimeToBecomeReady(t *testing.T) {
	m := listen(t)
	s := start(t, SystemdConfig{Passed: true})
	defer s.Close()
	s.Observe(supervisor.Situation{State: supervisor.Waiting})
	s.say("PASSED", "")
	s.Observe(supervisor.Situation{State: supervisor.Running, Pid: 12})
	m.await("EXTEND_TIMEOUT_USEC", strconv.FormatInt(commandStart.Microseconds(), 10))
}
