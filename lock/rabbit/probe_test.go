package rabbit_test

import (
	"fmt"
	"slices"
	"testing"

	"berth/lock"
	"berth/lock/rabbit"
)

var probings = []rabbit.Probing{rabbit.ProbeByConfirm, rabbit.ProbeByTx, rabbit.ProbeByPassive}

func probingBy(how rabbit.Probing) rabbit.Config {
	cfg := at(shared.URL())
	cfg.Probe = how
	return cfg
}

// More are absent than come back at once, on both sides of one that nacks.
func TestProbesTellWhatIsThere(t *testing.T) {
	t.Parallel()
	for _, how := range probings {
		id := fresh(lock.Semaphore)
		resize(t, shared, id, 2)
		_, h := holding(t, id, long)
		must(t, h.Verify(within(t)))
		refuser(t, id.Name+"-x")
		queues := []string{id.Name + "-1-A", id.Name + "-2-A", id.Name + "-1-B", id.Name + "-x", id.Name + "-2-B"}
		want := []string{"present", "present", "present", "unknown", "absent"}
		if how == rabbit.ProbeByPassive {
			want[3] = "present" // nothing is published to it
		}
		for slot := 3; slot <= 150; slot++ {
			queues, want = append(queues, fmt.Sprintf("%s-%d-A", id.Name, slot)), append(want, "absent")
		}
		l := backend(t, probingBy(how)).Lock(id)
		t.Cleanup(func() { l.Close() })
		must(t, l.Connect(within(t)))
		for range 2 {
			if got, err := rabbit.Presence(withinMinute(t), l, queues...); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %v, %v", how, got, err)
			}
		}
	}
}

func TestSlotsAreFoundAndWaitedForHoweverTheyAreProbed(t *testing.T) {
	t.Parallel()
	for _, how := range probings {
		t.Run(string(how), func(t *testing.T) {
			id := fresh(lock.Semaphore)
			resize(t, shared, id, 2)
			first, second := holdingAs(t, probingBy(how), id), holdingAs(t, probingBy(how), id)
			if first.Slot()+second.Slot() != 3 {
				t.Errorf("slots %d and %d", first.Slot(), second.Slot())
			}
			l := refused(t, probingBy(how), id)
			woken := untilWoken(t, l)
			awaitPlaces(t, id, 2) // next is in line twice
			must(t, first.Release(within(t)))
			must(t, second.Release(within(t)))
			must(t, <-woken)
			h, err := l.Acquire(within(t))
			must(t, err)
			must(t, h.Ready(within(t)))
		})
	}
}

func TestWayToProbeThatIsNotKnownIsRefused(t *testing.T) {
	if _, err := rabbit.New(probingBy("guess")); err == nil {
		t.Error("it is accepted")
	}
}
