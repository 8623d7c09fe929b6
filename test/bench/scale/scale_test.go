package scale

import (
	"context"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/test/bench/measure"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tiny is a run of everything that is done in seconds.
var tiny = Sizes{
	Waiters: 6, Handovers: 4, Locks: 3, Slots: 20, Searches: 2, Contenders: 3,
	Settle: 100 * time.Millisecond, Idle: 300 * time.Millisecond, Window: 500 * time.Millisecond,
}

// One broker serves all scenarios: to start one is what takes long.
func TestEverythingIsMeasured(t *testing.T) {
	broker, err := measure.OpenBroker(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := broker.Close(); err != nil {
			t.Error(err)
		}
	}()
	least := map[string]float64{
		"Waiters for one mutex":                                                    6,
		"From Release to Ready at the next waiter":                                 0,
		"Waiters that return from Wait for one handover":                           1,
		"All locks change hands at once: from Release to Ready":                    0,
		"... round trips, with those in which connections and channels are opened": 2,
		"A waiter looks when all are held":                                         0,
		"3 contenders on 1: turns":                                                 0,
		"3 contenders on 4: turns":                                                 0,
	}
	found := map[string]float64{}
	b, err := Open(tiny, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range scenarios {
		s := &scene{Bench: b, broker: broker, name: one.name}
		if err := one.measure(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", one.name, err)
		}
		for _, m := range s.measures {
			for _, x := range m.Results[0].Samples {
				found[m.Title] = x
				if math.IsNaN(x) || math.IsInf(x, 0) {
					t.Errorf("%s is %f", m.Title, x)
				}
			}
		}
	}
	for title, want := range least {
		if x, there := found[title]; !there || x < want {
			t.Errorf("%s: %f (there: %t), want at least %f", title, x, there, want)
		}
	}
}

func TestRunThatIsGivenUpEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b, err := Open(tiny, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Measure(ctx, "waiters"); err == nil {
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

func TestOvertakingMoreThanCameAtOnceIsOutOfTurn(t *testing.T) {
	o := newOrder(2)
	for _, nr := range []int{1, 0, 2, 9, 3, 5, 4, 6} {
		o.served(nr)
	}
	if o.wrong != 1 || o.next != 7 {
		t.Errorf("%d out of turn, next is %d; want 1 and 7", o.wrong, o.next)
	}
}
