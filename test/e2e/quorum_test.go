package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// fault: supervisor-killed
func TestTokenOnQuorumQueuesGoesToTheNextOne(t *testing.T) {
	t.Parallel()
	c := onTokens.contest(t, "semaphore")
	c.administer("create", "--slots=1", "--queue-type=quorum") // everybody else finds out the type
	if r := check(t, 0, calmBroker(t).URL(), "--token-semaphore", c.name); r.Broker.QueueType != "quorum" ||
		*r.Broker.Slots != 1 {
		t.Errorf("check says %+v", r.Broker)
	}
	first := c.run(tree)
	first.awaitRuns(1)
	second := c.run(tree, quickLoss)
	second.awaitLog("waiting: held by others")
	c.awaitHolders(1, first)

	first.signal(syscall.SIGKILL)
	second.awaitRuns(1)
	first.wantNothingLeft()
	c.awaitHolders(0, second)

	third := c.run(tree, quickLoss)
	third.awaitLog("waiting: held by others")
	c.administer("resize", "--slots=2")
	third.awaitRuns(1)
	c.awaitHolders(0, second, third)

	c.administer("destroy", "--wait")
	for _, b := range []*berth{second, third} {
		if left := b.command(); len(left) > 0 {
			t.Errorf("when destroy --wait had returned, %v were left", left)
		}
		b.awaitLog("waiting: the lock does not exist")
	}
	c.inquire(75, "status")
}

// Whoever has a cluster is told what the lock that is made does not outlive.
func TestCreateSaysThatClassicQueuesAreOnOneNode(t *testing.T) {
	t.Parallel()
	for said, flags := range map[bool][]string{
		true: {"--broker", calmBroker(t).URL()}, false: {"--queue-type", "classic", "--broker", calmBroker(t).URL()},
	} {
		c := contest{t, append(flags, "--broker", calmBroker(t).URL()), "token-semaphore", unique("s")}
		b := do(t, 0, c.administration("create", "--slots=1")...)
		if strings.Contains(b.stderr(), "--queue-type quorum") != said {
			t.Errorf("with %v it says: %s", c.flags, b.stderr())
		}
		c.administer("destroy")
	}
}

// awaitHolders waits until these berths, and no others, are said to hold slots, from the first one on, and so many to
// wait.
func (c contest) awaitHolders(waiting int, all ...*berth) {
	c.t.Helper()
	want := map[int]int{}
	for i, b := range all {
		want[i+1] = b.pid()
	}
	var said string
	until(c.t, fmt.Sprintf("the holders %v, and %d who wait", want, waiting), func() bool {
		said = c.inquire(0, "status", "--json").stdout()
		s := object[status](c.t, said)
		return s.holders() == fmt.Sprint(want) && s.Waiting == waiting
	}, func() string { return said })
}
