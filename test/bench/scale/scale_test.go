package scale

import (
	"context"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tiny is a run of everything that is done in seconds.
var tiny = Sizes{Waiters: 6, Handovers: 4, Locks: 3, Settle: 100 * time.Millisecond, Idle: 300 * time.Millisecond}

func TestEverythingIsMeasured(t *testing.T) {
	found := map[string]float64{}
	b, err := Open(tiny, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range Scenarios {
		measures, err := s.Measure(b, t.Context())
		if err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		for _, m := range measures {
			for _, x := range m.Results[0].Samples {
				found[m.Title] = x
				if math.IsNaN(x) || math.IsInf(x, 0) {
					t.Errorf("%s is %f", m.Title, x)
				}
			}
		}
	}
	for title, want := range map[string]float64{
		"Waiters for one mutex":                                       6,
		"Processor time of an idle waiter":                            0,
		"From Release to Ready at the next waiter":                    0,
		"Mutexes with one holder and one waiter each":                 3,
		"All locks change hands at the same moment: until a lock has": 0,
		"... releases that the broker does not confirm in time":       0,
	} {
		if x, there := found[title]; !there || x < want {
			t.Errorf("%s: %f (there: %t), want at least %f", title, x, there, want)
		}
	}
	if len(b.Versions()) != 1 || !strings.HasPrefix(b.Versions()[0], "RabbitMQ ") {
		t.Errorf("versions are %q", b.Versions())
	}
}

func TestRunThatIsGivenUpEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b, err := Open(tiny, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Scenarios[0].Measure(b, ctx); err == nil {
		t.Error("it has measured something")
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
