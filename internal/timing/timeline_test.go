package timing

import (
	"math"
	"testing"
	"time"

	"berth/signals"
)

func timed(t *testing.T, heartbeat time.Duration, loss string) (Timings, signals.Sequence) {
	t.Helper()
	seq, err := signals.ParseSequence(loss)
	if err != nil {
		t.Fatal(err)
	}
	return Timings{Heartbeat: heartbeat, VerifyInterval: time.Second, VerifyTimeout: 2 * time.Second,
		Loss: seq.Duration()}, seq
}

// at returns the moments of an event.
func at(line []Moment, event Event) []Moment {
	var found []Moment
	for _, m := range line {
		if m.Event == event {
			found = append(found, m)
		}
	}
	return found
}

func TestSafeTimelineEndsTheCommandBeforeTheLease(t *testing.T) {
	line := Timeline(timed(t, 5*time.Second, "TERM 1s, INT 1s, KILL"))
	want := []Moment{
		{At: 0, Event: LastVerified}, {At: time.Second, Event: NextBegins}, {At: 3 * time.Second, Event: TimesOut},
		{At: 7500 * time.Millisecond, Event: LossStep, Signal: "TERM"},
		{At: 8500 * time.Millisecond, Event: LossStep, Signal: "INT"},
		{At: 9500 * time.Millisecond, Event: LossStep, Signal: "KILL"},
		{At: 9500 * time.Millisecond, Event: Deadline}, {At: 10 * time.Second, Event: LeaseEnds}, {At: 20 * time.Second,
			Event: NextHolder},
	}
	for i, m := range line {
		if i >= len(want) || m != want[i] {
			t.Fatalf("moment %d is %+v in %+v", i, m, line)
		}
	}
}

func TestTimelineMarksWhatIsLateExactlyIfTimingsAreUnsafe(t *testing.T) {
	for heartbeat := MinHeartbeat; heartbeat <= 10*time.Second; heartbeat += time.Second {
		for _, loss := range []string{"KILL", "TERM 2s, KILL", "TERM 3500ms, KILL", "TERM 8s, INT 1s, KILL"} {
			timings, sequence := timed(t, heartbeat, loss)
			late, last := false, time.Duration(-1)
			for _, m := range Timeline(timings, sequence) {
				late = late || m.Late
				if m.At < last {
					t.Errorf("%s, %s: not in order of time", heartbeat, loss)
				}
				last = m.At
			}
			if unsafe := timings.Check() != nil; unsafe != late {
				t.Errorf("heartbeat %s, loss %s: unsafe %v, late %v", heartbeat, loss, unsafe, late)
			}
		}
	}
}

func TestTimelineOfEndlessTimingsDoesNotOverflow(t *testing.T) {
	timings, loss := timed(t, time.Second, "TERM 2562047h, INT 2562047h, KILL")
	timings.VerifyTimeout = math.MaxInt64
	for _, m := range Timeline(timings, loss) {
		if m.At < 0 {
			t.Errorf("%+v is before the beginning", m)
		}
	}
	if steps := at(Timeline(timings, loss), LossStep); len(steps) != 3 || !steps[2].Late {
		t.Errorf("steps: %+v", steps)
	}
}
