package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"berth/test/brokertest"

	"go.uber.org/goleak"
)

// tiny is a run of everything that is done in seconds.
var tiny = []string{
	"-waiters", "6", "-handovers", "4", "-counted", "2", "-locks", "3", "-slots", "20", "-searches", "2", "-contenders", "3",
	"-settle", "100ms", "-idle", "300ms", "-contest", "500ms", "-delay", "2ms", "-timeout", "2m",
}

// figuresOf runs what the arguments say, and returns the figures by scenario and
// name.
func figuresOf(t *testing.T, args ...string) map[string]float64 {
	t.Helper()
	file := filepath.Join(t.TempDir(), "figures.json")
	var stdout, stderr bytes.Buffer
	if status := run(t.Context(), slices.Concat(tiny, []string{"-json", file}, args), &stdout, &stderr); status != 0 {
		t.Fatalf("status %d:\n%s", status, &stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, f := range r.Figures {
		found[f.Scenario+": "+f.Name] = f.Value
		if math.IsNaN(f.Value) || math.IsInf(f.Value, 0) {
			t.Errorf("%s: %s is %f", f.Scenario, f.Name, f.Value)
		}
		if !strings.Contains(stdout.String(), f.Name) {
			t.Errorf("%s: %s is not in the table", f.Scenario, f.Name)
		}
	}
	return found
}

// atLeast fails for figures that are missing or smaller.
func atLeast(t *testing.T, found, least map[string]float64) {
	t.Helper()
	for name, want := range least {
		if value, there := found[name]; !there || value < want {
			t.Errorf("%s: %f (there: %t), want at least %f", name, value, there, want)
		}
	}
}

func TestEverythingIsMeasuredOnAGivenBrokerWhichStays(t *testing.T) {
	defer goleak.VerifyNone(t)
	b, err := brokertest.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	}()
	atLeast(t, figuresOf(t, "-broker", b.URL()), map[string]float64{
		"waiters: waiters": 6,
		"waiters: release to ready at the next, of 4, max":        0,
		"waiters: waiters that returned from Wait, per handover":  1,
		"locks: time until every lock had changed hands":          0,
		"slots:   frames to the broker":                           20,
		"slots: frames to the broker, from connecting to release": 40,
		"slots: search and claim, max":                            0,
		"slots: look when all are held, max":                      0,
		"fairness: 3 on 1: turns per second":                      0,
		"fairness: 3 on 4: smallest share":                        0,
	})
	if _, err := b.Eval(t.Context(), "ok"); err != nil {
		t.Error(err)
	}
}

func TestPrivateBrokerIsLookedInto(t *testing.T) {
	defer goleak.VerifyNone(t)
	atLeast(t, figuresOf(t, "waiters"), map[string]float64{
		"waiters: memory of the broker after":          1,
		"waiters: frames for joining, per waiter":      1,
		"waiters: growth of the broker's log":          0,
		"waiters: processor, broker, per waiter":       0,
		"waiters: looks of its own accord, per waiter": 0,
	})
}

func TestWrongUsageIsNamed(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"everything", `there is no scenario "everything"`},
		{"-waiters 0", "-waiters is 0"},
		{"-waiters 2 -handovers 3", "raise -waiters"},
		{"-idle 0s", "-idle"},
		{"-broker amqps://host", "unencrypted"},
	} {
		var stdout, stderr bytes.Buffer
		if status := run(t.Context(), strings.Fields(tc.args), &stdout, &stderr); status != 2 || !strings.Contains(stderr.String(), tc.want) {
			t.Errorf("%s: status %d, %q; want 2 and %q", tc.args, status, &stderr, tc.want)
		}
	}
}

func TestTooLowALimitOfDescriptorsSaysWhatToDo(t *testing.T) {
	// More than the kernel gives to anybody.
	err := raiseDescriptors(math.MaxInt64)
	if err == nil || !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("%v", err)
	}
}

func TestLimitOfDescriptorsIsRaised(t *testing.T) {
	var before, after syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	}()
	low := syscall.Rlimit{Cur: before.Max / 2, Max: before.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	if err := raiseDescriptors(before.Max - 1); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &after); err != nil || after.Cur < before.Max-1 {
		t.Errorf("%d permitted (%v), want %d", after.Cur, err, before.Max-1)
	}
}

func TestRunThatIsGivenUpEnds(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	if status := run(ctx, tiny, &stdout, &stderr); status != 1 || stderr.Len() == 0 {
		t.Errorf("status %d: %s", status, &stderr)
	}
}
