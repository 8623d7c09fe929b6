package feed

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/internal/boottime"
	"berth/lock"
	"berth/supervisor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

// told is a feed, and what comes out of it.
func told(t *testing.T) (*Feed, *os.File) {
	t.Helper()
	reads, writes, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reads.Close() })
	f := New(Config{
		Self: lock.Report{Host: "here"}, Lock: lock.ID{Kind: lock.Mutex, Name: "m"}, Log: hclog.NewNullLogger(),
		Ready: func(now supervisor.Situation) bool { return now.State == supervisor.Running },
		Alarm: func() string { return "" },
	})
	f.to, f.done = writes, make(chan struct{})
	go f.send()
	return f, reads
}

// await reads until a line is as wanted.
func await(t *testing.T, from *bufio.Scanner, wanted func(Snapshot) bool) Snapshot {
	t.Helper()
	for from.Scan() {
		var s Snapshot
		if err := json.Unmarshal(from.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		if wanted(s) {
			return s
		}
	}
	t.Fatal("it is not told")
	return Snapshot{}
}

func TestWhatASupervisorDoesIsTold(t *testing.T) {
	f, reads := told(t)
	_ = reads.SetReadDeadline(time.Now().Add(patience))
	from := bufio.NewScanner(reads)
	f.Observe(supervisor.Situation{State: supervisor.Pausing, Waiting: "no broker answers"})
	s := await(t, from, func(s Snapshot) bool { return s.State == "pausing" })
	if s.Ready || s.Trouble != "no broker answers" || s.Lock != "m" || s.Host != "here" {
		t.Errorf("while there is no broker: %+v", s)
	}
	f.Won(time.Second)
	f.Observe(supervisor.Situation{State: supervisor.Running, Slot: 1, Term: 7, Pid: 12})
	since := boottime.Now()
	f.Proved(since, since.Add(10*time.Second))
	f.Started(time.Millisecond, false)
	f.Verified(time.Millisecond, nil)
	f.Verified(time.Millisecond, errors.New("no answer"))
	s = await(t, from, func(s Snapshot) bool { return s.Counts.Failures == 1 })
	if left := s.Deadline.Sub(s.Verified).Round(time.Second); !s.Ready || s.Slot != 1 || s.Term != 7 ||
		s.CommandPID != 12 || left != 10*time.Second {
		t.Errorf("while the command runs: %+v", s)
	}
	if c := s.Counts; c.Acquires != 1 || c.Starts != 1 || c.Restarts != 0 || c.Verification.Counts[0] != 2 {
		t.Errorf("it has counted %+v", c)
	}
	f.Lost(supervisor.NotVerified, lock.ErrLost)
	f.Observe(supervisor.Situation{State: supervisor.Ended})
	f.Close()
	s = await(t, from, func(s Snapshot) bool { return s.State == "ended" })
	if !s.Deadline.IsZero() || s.Counts.Losses["not_verified"] != 1 {
		t.Errorf("in the end: %+v", s)
	}
	if l := s.LastLoss; l.Slot != 1 || l.Term != 7 || l.Cause != supervisor.NotVerified || l.Why != "no answer" {
		t.Errorf("of the loss it tells %+v", l)
	}
}

func TestItListensOnWhatIsWritten(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:1": "tcp4", "0.0.0.0:1": "tcp4", "[::1]:1": "tcp6", "[::]:1": "tcp6", ":1": "tcp", "localhost:1": "tcp",
		"[fe80::1%lo]:1": "tcp6",
	} {
		if got := network(address); got != want {
			t.Errorf("%s: %s, not %s", address, got, want)
		}
	}
}

func TestNobodyWaitsForAServerThatDoesNotRead(t *testing.T) {
	f, _ := told(t)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for n := range 100000 { // far more than a pipe holds
			f.Observe(supervisor.Situation{State: supervisor.Waiting, Waiting: fmt.Sprint(n)})
			f.Beat()
		}
		f.Close()
	}()
	select {
	case <-over:
	case <-time.After(patience):
		t.Fatal("the supervisor is kept waiting")
	}
}

func TestPastThatIsToldIsBounded(t *testing.T) {
	f := New(Config{})
	for range 10 * maxChanges {
		f.Observe(supervisor.Situation{State: supervisor.Running, Slot: 1})
		f.Observe(supervisor.Situation{State: supervisor.InDoubt, Slot: 1})
	}
	for range 1000 { // a waiter that looks now and then
		f.Observe(supervisor.Situation{State: supervisor.Attempting})
		f.Observe(supervisor.Situation{State: supervisor.Waiting})
	}
	line := f.said.Timeline
	if n := len(line); n != maxChanges || line[n-1].State != "waiting" || line[n-2].State != "in doubt" {
		t.Errorf("%d changes, the last ones %+v", n, line[max(0, n-3):])
	}
}

// outside is an inspector that sees a holder.
type outside struct{ looks, closed chan struct{} }

// Look implements lock.Inspector.
func (o outside) Look(context.Context) (lock.Status, error) {
	o.looks <- struct{}{}
	long := strings.Repeat("x", 10*maxWord)
	held := lock.SlotStatus{Slot: 1, State: lock.SlotHeld, Holder: &lock.Report{Host: "there", PID: 7, Command: long}}
	return lock.Status{Slots: slices.Repeat([]lock.SlotStatus{held}, maxSlots+3), Waiting: 2}, nil
}

// Ask implements lock.Inspector.
func (outside) Ask(context.Context, int, lock.Verb) ([]byte, error) { return nil, lock.ErrAbsent }

// Close implements lock.Inspector.
func (o outside) Close() error {
	close(o.closed)
	return nil
}

func TestStandbyLooksWhoHoldsTheLockForWhoeverAsks(t *testing.T) {
	f, reads := told(t)
	_ = reads.SetReadDeadline(time.Now().Add(patience))
	from := bufio.NewScanner(reads)
	asked, asks, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer asks.Close()
	o := outside{looks: make(chan struct{}, 100), closed: make(chan struct{})}
	f.cfg.Inspector = func() lock.Inspector { return o }
	f.lookWhenAsked(asked)
	f.Observe(supervisor.Situation{State: supervisor.Waiting})
	if s := await(t, from, func(s Snapshot) bool { return s.State == "waiting" }); !s.Look.At.IsZero() || len(o.looks) != 0 {
		t.Errorf("unasked it has seen %+v", s.Look)
	}
	if _, err := asks.WriteString("?"); err != nil {
		t.Fatal(err)
	}
	s := await(t, from, func(s Snapshot) bool { return !s.Look.At.IsZero() })
	if l := s.Look; len(l.Slots) != maxSlots || l.More != 3 || l.Waiting != 2 || l.Slots[0].Holder.Host != "there" ||
		len(l.Slots[0].Holder.Command) > 2*maxWord {
		t.Errorf("it has seen %+v", l)
	}
	f.Observe(supervisor.Situation{State: supervisor.Running, Slot: 1})
	if s := await(t, from, func(s Snapshot) bool { return s.Slot == 1 }); !s.Look.At.IsZero() {
		t.Errorf("a holder tells of %+v", s.Look)
	}
	f.Close()
	select {
	case <-o.closed:
	default:
		t.Error("it keeps what it has looked with")
	}
}

// What a service leaves behind systemd kills, and tells of it.
func TestEndOfTheServerIsWaitedFor(t *testing.T) {
	f, reads := told(t)
	server := exec.Command("sh", "-c", "cat >/dev/null; sleep 0.1")
	server.Stdin = reads
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Wait() }()
	f.ended = endOf(server.Process.Pid)
	f.Close()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", server.Process.Pid))
	if err != nil || !strings.Contains(string(stat), ") Z ") {
		t.Errorf("it is still there: %s, error %v", stat, err)
	}
}
