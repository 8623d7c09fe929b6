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

// fault: supervisor-killed
func TestAnyKindRunsOnQuorumQueues(t *testing.T) {
	t.Parallel()
	for kind, enable := range map[string][]string{
		"mutex": nil, "persistent-mutex": {"enable"}, "semaphore": {"create", "--slots=1"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			others := contest{t, []string{"--broker", calmBroker(t).URL()}, kind, unique("q")} // of whom nobody says a type
			c := others
			c.flags = append(c.flags, "--queue-type", "quorum")
			if enable != nil {
				c.administer(enable[0], enable[1:]...)
			}
			first := c.run(tree)
			first.awaitRuns(1)
			second := others.run(tree, quickLoss)
			second.awaitLog("waiting: held by others")
			others.awaitHolders(1, first)
			classic := do(t, 78, "run", "--try", "--"+kind, c.name, c.flags[0], c.flags[1], "--queue-type", "classic", "--", "true")
			if !strings.Contains(classic.stderr(), c.name+"-Q") {
				t.Errorf("it is not told which queue shows the type: %s", classic.stderr())
			}
			first.signal(syscall.SIGKILL)
			second.awaitRuns(1)
			first.wantNothingLeft()
			others.awaitHolders(0, second)
			third := others.run(tree)
			third.awaitLog("waiting: held by others")
			others.inquire(0, "step-down", "--wait")
			third.awaitRuns(1)
		})
	}
}

// A user with a cluster is told what the lock that is made does not outlive.
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
