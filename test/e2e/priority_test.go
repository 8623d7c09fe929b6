package e2e

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// A newcomer of a higher priority takes the place of the one that is next.
func TestWaitersAreServedByPriority(t *testing.T) {
	t.Parallel()
	calmBroker(t)
	c := onBroker.contest(t, "mutex")
	holder := c.run(plain)
	holder.awaitRunning()
	var waiting []*berth
	for _, flags := range [][]string{nil, {"--priority=7"}, {"--priority=100"}} {
		b := c.run(plain, flags...)
		b.awaitLog("waiting: all slots are held")
		waiting = append(waiting, b)
	}
	waiting[2].awaitLog("next in line")
	slices.Reverse(waiting)
	for _, next := range waiting {
		holder.signal(unix.SIGTERM)
		next.awaitRunning()
		holder = next
	}
}
