package boottime

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTimerTellsOfWhatIsSet(t *testing.T) {
	timer, err := NewTimer()
	if err != nil {
		t.Fatal(err)
	}
	defer timer.Close()

	due := Now().Add(20 * time.Millisecond)
	if due.Passed() {
		t.Error("a moment to come has passed")
	}
	if err := timer.Set(due); err != nil {
		t.Fatal(err)
	}
	await(t, timer)
	if !due.Passed() {
		t.Error("the timer told of its moment before it came")
	}
	if err := timer.Set(Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	await(t, timer)
}

func TestUnsetTimerIsSilent(t *testing.T) {
	timer, err := NewTimer()
	if err != nil {
		t.Fatal(err)
	}
	defer timer.Close()
	soon := Now().Add(50 * time.Millisecond)
	if err := timer.Set(soon); err != nil {
		t.Fatal(err)
	}
	if err := timer.Set(0); err != nil {
		t.Fatal(err)
	}
	other, err := NewTimer()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Set(soon.Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-timer.C:
		t.Error("a timer that was unset told of a moment")
	case <-other.C:
	}
	if Instant(0).Passed() {
		t.Error("no deadline has passed")
	}
}

// ahead is a clock on which it is a minute later.
type ahead struct{}

func (ahead) Now() Instant { return Now().Add(time.Minute) }

func (ahead) NewTimer() *Timer {
	return TimerOf(make(chan struct{}, 1), func(Instant) {}, func() {})
}

func TestClockIsTheKernelsUnlessAnotherIsGiven(t *testing.T) {
	kernel, given := Clock{}, From(ahead{})
	soon := Now().Add(30 * time.Second)
	if kernel.Passed(soon) || kernel.Until(soon) <= 0 {
		t.Error("on the kernel's clock a moment to come has passed")
	}
	if !given.Passed(soon) || given.Until(soon) >= 0 || given.Passed(0) {
		t.Error("a clock that is given is not asked")
	}
	for _, c := range []Clock{kernel, given} {
		timer, err := c.NewTimer()
		if err != nil {
			t.Fatal(err)
		}
		if err := timer.Set(0); err != nil {
			t.Error(err)
		}
		timer.Close()
	}
}

func await(t *testing.T, timer *Timer) {
	t.Helper()
	select {
	case <-timer.C:
	case <-time.After(10 * time.Second):
		t.Fatal("the timer said nothing for 10 s")
	}
}
