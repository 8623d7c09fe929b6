package e2e

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// A newcomer of a higher priority takes the place of the successor.
func TestWaitersAreServedByPriority(t *testing.T) {
	t.Parallel()
	calmBroker(t)
	c := onBroker.contest(t, "mutex")
	holder := c.run(plain)
	holder.awaitRunning()
	var waiting []*berth
	for _, flags := range [][]string{nil, {"--priority=7"}, {"--priority=100"}} {
		b := c.run(plain, flags...)
		b.awaitLog("waiting: held by others")
		waiting = append(waiting, b)
	}
	waiting[2].awaitLog("next in line")
	slices.Reverse(waiting)
	for i, next := range waiting {
		last := i == len(waiting)-1
		var before int
		if !last {
			before = len(waiting[i+1].logged("next in line"))
		}
		holder.signal(unix.SIGTERM)
		next.awaitRunning()
		if !last { // a waiter on its way to the reader's place gets there first where commands end at once
			waiting[i+1].awaitLogs(before+1, "next in line")
		}
		holder = next
	}
}
