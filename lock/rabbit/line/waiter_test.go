package line

import (
	"testing"
	"time"
)

func TestWaiterThatHasNotSeenAllLooksAgainSoon(t *testing.T) {
	w := &Waiter{Looks: 100}
	w.Missed(Full)
	if d := w.nextLook(true); d < time.Minute {
		t.Errorf("with all slots seen held: after %s already", d)
	}
	w.Missed(Doubtful)
	if d := w.nextLook(true); d > time.Minute {
		t.Errorf("with some of the slots not seen: only after %s", d)
	}
}
