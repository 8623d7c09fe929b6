package slotdir

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestRecordingATermIsNoChangeThatWaitersHearOf(t *testing.T) {
	for _, mask := range []uint32{unix.IN_CREATE, unix.IN_MODIFY, unix.IN_CLOSE_WRITE, unix.IN_DELETE} {
		if e := (Event{Name: "1.term", Mask: mask}); e.Vacates() || e.EndsAdministration() {
			t.Errorf("change %#x of the term's file wakes waiters", mask)
		}
	}
}

func TestDroppedEventsCountAsAChange(t *testing.T) {
	overflow := Event{Mask: unix.IN_Q_OVERFLOW}
	if !overflow.Vacates() || !overflow.EndsAdministration() {
		t.Fatal("an overflow of the queue wakes nobody")
	}
}
