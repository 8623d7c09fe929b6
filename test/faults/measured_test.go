package faults

import (
	"syscall"
	"testing"
	"time"

	"berth/prover/history"
)

// manyTimes is how often what is measured is tried.
const manyTimes = 30

// clean fails the test for whatever the verdict blames.
func clean(t *testing.T, v verdict) {
	t.Helper()
	for _, problem := range v.Problems {
		t.Error(problem)
	}
}

// fault: supervisor-killed
//
// A supervisor is killed, its guard kills the command and publishes the will, the
// standby's command runs.
func TestStandbyRunsAfterSupervisorWasKilled(t *testing.T) {
	const bound = time.Second // the median, on a machine that may be busy; the handover delay is far longer
	s := open(t, rabbit, stage{})
	var struck []int64
	for i := range manyTimes {
		struck = append(struck, history.Now())
		s.running().signal(syscall.SIGKILL)
		s.await("the standby's command runs", func() bool { return s.nextRuns(struck[i]) })
		s.awaitWaiting(s.join(), 1)
		s.awaitBaton()
		time.Sleep(settling)
	}
	ended := history.Now()
	v := s.end()
	clean(t, v)
	r := results.row("default timings: supervisor killed", len(s.all)-manyTimes)
	for _, at := range struck {
		r.count(v, at, ended)
	}
	r.overlaps, r.overlap = len(v.Overlaps), v.Overlapped()
	if m := median(r.next); len(r.next) < manyTimes || m > bound {
		t.Errorf("%d standbys' commands ran after a median of %s, want %d and %s at most", len(r.next), m, manyTimes,
			bound)
	}
}

// fault: reset
//
// A connection that is reset is not a lost slot: the healthy holder reclaims it.
func TestHealthyHolderKeepsRunningAfterReset(t *testing.T) {
	const wanted = manyTimes - 1
	r := results.row("default timings: reset", 3)
	restarts := 0
	for r.runs < manyTimes {
		s := open(t, rabbit, stage{})
		for r.runs < manyTimes && s.began() == 1 {
			r.runs++
			s.holder().relay.reset()
			n := r.runs
			reclaimed := s.holder().logged("slot reclaimed") + 1
			s.await("the holder reclaims the slot, or another command runs", func() bool {
				return s.holder().logged("slot reclaimed") >= reclaimed || s.began() > 1
			})
			// Longer than a newcomer leaves a slot alone that it has given back.
			time.Sleep(1500 * time.Millisecond)
			if s.began() > 1 {
				t.Logf("reset %d: the command was started again", n)
			}
		}
		v := s.end()
		clean(t, v)
		r.overlaps, r.overlap = r.overlaps+len(v.Overlaps), r.overlap+v.Overlapped()
		restarts += len(v.Runs) - 1
	}
	r.kept = r.runs - restarts
	if r.kept < wanted {
		t.Errorf("the holder's command went on in %d of %d resets, not %d", r.kept, r.runs, wanted)
	}
}

// fault: broker-restart
//
// A broker that is gone for three seconds or so costs nobody a restart.
func TestCommandsGoOnWhenTheBrokerIsRestartedInPlace(t *testing.T) {
	const (
		stopped    = 2200 * time.Millisecond // stopping and starting take most of another second
		survivable = 6 * time.Second         // lease 10 s - loss sequence 2 s - margin - verification
	)
	r := results.row("default timings: broker restarted in place", 3)
	for range rounds {
		s := open(t, rabbit, stage{})
		at, struck := history.Now(), time.Now()
		s.must(s.broker.RestartInPlace(t.Context(), stopped))
		down := time.Since(struck)
		after := history.Now() + int64(10*time.Second) // the deadline would have passed by then
		s.await("a command runs after the fault", func() bool { return s.alive(after) })
		v := s.end()
		clean(t, v)
		r.add(v, at, history.Now())
		t.Logf("the broker was down for %s, %d commands were run", down.Round(time.Millisecond), len(v.Runs))
		if down >= survivable {
			t.Errorf("the broker was down for %s, longer than commands outlive; try again on a machine that is "+
				"less busy", down.Round(time.Millisecond))
		}
	}
	if r.kept < r.runs {
		t.Errorf("the holder's command went on in %d of %d restarts of the broker", r.kept, r.runs)
	}
}

// fault: partition
//
// A holder that nobody hears any more has its tree dead before the broker frees
// the slot.
func TestTreeIsDeadBeforeTheBrokerFreesTheSlotOfASilentHolder(t *testing.T) {
	// Lease 10 s + heartbeat 5 s + handover delay 10 s, and some time to wake the
	// standby and to start its command.
	const bound = 25*time.Second + time.Second
	r := results.row("default timings: silent partition", 3)
	dead, within := 0, 0
	for range rounds {
		s := open(t, rabbit, stage{})
		at := history.Now()
		s.holder().relay.silence(toBroker, fromBroker)
		s.await("the standby wins the slot", func() bool { return s.successor.logged("slot won") > 0 })
		won := history.Now()
		s.await("the standby's command runs", func() bool { return s.nextRuns(at) })
		s.holder().relay.heal()
		v := s.end()
		clean(t, v)
		r.add(v, at, history.Now())
		first := v.Runs[0]
		if first.Until < won {
			dead++
		}
		if command, found := next(v.Runs, at); found && time.Duration(command.At-at) <= bound {
			within++
		}
		t.Logf("the tree died %s after the fault, the standby won the slot after %s and ran after %s",
			time.Duration(first.Until-at).Round(time.Millisecond), time.Duration(won-at).Round(time.Millisecond),
			time.Duration(r.next[len(r.next)-1]).Round(time.Millisecond))
	}
	if within < r.runs {
		t.Errorf("%d of %d standbys ran within %s", within, r.runs, bound)
	}
	if dead < r.runs {
		t.Errorf("the tree was dead before the slot was won in %d of %d runs", dead, r.runs)
	}
}
