package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/signals"
)

// everywhere is where a semaphore has to behave the same.
var everywhere = []place{onBroker, onBrokerNAL, onHost}

// everySemaphore is everywhere, and of tokens, with both types of queues.
var everySemaphore = append(slices.Clone(everywhere), onTokens, onQuorum)

// crew is a number of berths that contend for one semaphore, each with a
// command that writes its slot down.
type crew []*berth

func (c contest) crew(n int) crew {
	c.t.Helper()
	var all crew
	for range n {
		all = append(all, c.run(tree, quickStop, quickLoss))
	}
	return all
}

// slots returns the slots in which commands of the crew run, in order.
func (all crew) slots() []string {
	var slots []string
	for _, b := range all {
		if runs := b.runs(); len(b.command()) == treeSize && len(runs) > 0 {
			slots = append(slots, runs[len(runs)-1])
		}
	}
	slices.Sort(slots)
	return slots
}

// awaitSlots waits until commands run in exactly these slots.
func (all crew) awaitSlots(want ...string) {
	t := all[0].t
	t.Helper()
	until(t, fmt.Sprintf("commands in the slots %v", want), func() bool { return slices.Equal(all.slots(), want) },
		func() string { return fmt.Sprintf("they run in %v", all.slots()) })
}

// processes returns how many live processes the commands of the crew have.
func (all crew) processes() int {
	n := 0
	for _, b := range all {
		n += len(b.command())
	}
	return n
}

// in returns the berth whose command runs in a slot.
func (all crew) in(slot string) *berth {
	all[0].t.Helper()
	for _, b := range all {
		if runs := b.runs(); len(runs) > 0 && runs[len(runs)-1] == slot && len(b.command()) > 0 {
			return b
		}
	}
	all[0].t.Fatalf("no command runs in slot %s", slot)
	return nil
}

// fault: slot-removed
func TestSizeChangesWhileASemaphoreIsInUse(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "semaphore")
		c.administer("create", "--slots=3")
		all := c.crew(5)
		all.awaitSlots("1", "2", "3")

		third := all.in("3")
		c.administer("resize", "--remove=1", "--wait")
		if left := third.command(); len(left) > 0 {
			t.Errorf("when resize --wait had returned, %v were left", left)
		}
		if line := third.awaitLog("slot removed by an administrator"); line.text("@level") != "warn" {
			t.Errorf("what an administrator has asked for is told as %s", line.text("@level"))
		}
		holdsFor(t, time.Second, func() bool { // nobody takes its place
			return all.processes() == 2*treeSize && all.in("1").undisturbed() && all.in("2").undisturbed()
		})
		c.wantHeld()
		for _, b := range all {
			b.stays()
		}

		c.administer("resize", "--add=2")
		all.awaitSlots("1", "2", "3", "4")

		c.administer("destroy", "--wait")
		for _, b := range all {
			if left := b.command(); len(left) > 0 {
				t.Errorf("when destroy --wait had returned, %v were left", left)
			}
		}
		for _, b := range all {
			line := b.awaitLog("waiting: the lock does not exist")
			want := "berth " + c.kind + " create " + c.name + " --slots N"
			if got := line.text("create_it_with"); !strings.HasPrefix(got, want) {
				t.Errorf("the hint is %q, not %q", got, want)
			}
		}
		do(t, 75, c.args("true", "--try")...).wantOneLine("does not exist")

		c.administer("create", "--slots=1")
		all.awaitSlots("1")
		for _, b := range all {
			b.signal(syscall.SIGTERM)
		}
		for _, b := range all {
			b.wantStatus(143)
			b.wantNothingLeft()
		}
	}, everySemaphore...)
}

// paste runs a command that a message says to use, as it stands but for the number
// of slots, with the broker in the environment.
func (c contest) paste(command string) {
	c.t.Helper()
	words := strings.Fields(strings.Replace(command, "--slots N", "--slots 1", 1))
	if len(words) == 0 || words[0] != "berth" {
		c.t.Fatalf("there is no command to paste: %q", command)
	}
	broker := c.flags[len(c.flags)-1]
	if b := (setup{env: []string{"BERTH_BROKER=" + broker}}).start(c.t, words[1:]...); b.status() != 0 {
		c.t.Fatalf("%s: ended with %d", command, b.status())
	}
}

func TestPastedCommandFindsTheLockThatTheMessageIsAbout(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "semaphore")
		// proposed returns the command that a refused action ends with.
		proposed := func(behind string, args ...string) string {
			_, command, _ := strings.Cut(do(t, 75, args...).stderr(), behind)
			return command
		}
		c.paste(proposed("create it with: ", c.administration("resize", "--slots=2")...))
		c.wantFree()
		c.paste(proposed("to change that use: ", c.administration("create", "--slots=2")...))
		mutex := c
		mutex.kind = "persistent-mutex"
		c.paste(proposed("to remove it use: ", mutex.administration("disable")...)) // 2 slots are no mutex

		c.paste(proposed("create it with: ", c.args("true", "--try", "--log-format=text")...))
		c.administer("destroy")
		waiting := c.run(plain, quickStop)
		c.paste(waiting.awaitLog("waiting: the lock does not exist").text("create_it_with"))
		waiting.awaitRuns(1)
		waiting.signal(syscall.SIGTERM)
		waiting.wantStatus(143)
	}, everywhere...)
}

func TestHolderThatLeavesIsReplacedInItsSlot(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "semaphore")
		c.administer("create", "--slots=2")
		all := c.crew(3)
		all.awaitSlots("1", "2")
		leaving := all.in("1")
		leaving.signal(syscall.SIGTERM)
		leaving.wantStatus(143)
		all.awaitSlots("1", "2")
	}, everySemaphore...)
}

func TestTwoAdministratorsAtOnceBothGetTheirWay(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "semaphore")
		c.administer("create", "--slots=2")
		var all []*berth
		for _, change := range []string{"--add=3", "--add=1", "--remove=1", "--add=2"} {
			all = append(all, start(t, c.administration("resize", change)...))
		}
		for _, b := range all {
			b.wantStatus(0)
		}
		// Asked for the size that is there, create has nothing to do; another it refuses.
		c.administer("create", "--slots=7")
		do(t, 75, c.administration("create", "--slots=6")...)
	}, everySemaphore...)
}

func TestWaitForAHolderThatIsStuckKeepsNoOtherAdministratorOut(t *testing.T) {
	t.Parallel()
	c := onBroker.contest(t, "semaphore")
	c.administer("create", "--slots=2")
	holder := c.run(plain, "--heartbeat=60s") // the broker keeps its slot for two minutes at least
	holder.awaitRuns(1)
	holder.signal(syscall.SIGSTOP)
	waits := start(t, c.administration("destroy", "--wait")...)
	until(t, "the end of the lock", func() bool {
		b := start(t, c.args("true", "--try")...)
		return b.status() == 75 && strings.Contains(b.stderr(), "does not exist")
	})
	waits.awaitLog("still held")
	c.administer("create", "--slots=1")
	waits.wantStatus(75)
	if said := waits.stderr(); !strings.Contains(said, "made again meanwhile") ||
		strings.Contains(said, "to go on waiting") {
		t.Error("the user is not told that the slot exists again, or is to remove it once more")
	}
}

// A of a slot is deleted by hand: the slots beyond it are leftovers, whose
// commands go on. A lock that is made again has no more slots than asked for.
func TestLeftoversDoNotJoinALockThatIsMadeAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind    string // of the lock that is made
		make    []string
		deleted string
		want    []string
	}{
		"create":           {"semaphore", []string{"create", "--slots=2"}, "-1-A", []string{"1", "2"}},
		"grow over a gap":  {"semaphore", []string{"resize", "--slots=2"}, "-2-A", []string{"1", "2"}},
		"shrink to a gap":  {"semaphore", []string{"resize", "--slots=2"}, "-3-A", []string{"1", "2"}},
		"persistent mutex": {"persistent-mutex", []string{"enable"}, "-1-A", []string{"1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := calmBroker(t)
			old := contest{t, []string{"--broker", b.URL()}, "semaphore", unique("semaphore")}
			old.administer("create", "--slots=5")
			defer func() { old.administer("destroy") }()
			all := old.crew(5)
			all.awaitSlots("1", "2", "3", "4", "5")
			deleteQueue(c.deleted)(t, b, old)
			made := contest{t, old.flags, c.kind, old.name}
			action := do(t, 0, made.administration(c.make[0], c.make[1:]...)...)
			all.awaitSlots(c.want...)
			if !strings.Contains(action.stderr(), "leftovers beyond the last slot were removed") {
				t.Errorf("it did not say that it removed leftovers, but %q", action.stderr())
			}
		})
	}
}

// What was broken off can be finished as it says, also where the number was
// given as a difference.
func TestActionThatWasBrokenOffSaysHowToFinishIt(t *testing.T) {
	t.Parallel()
	for end, action := range map[syscall.Signal][]string{
		syscall.SIGTERM: {"create", "--slots=50000"},
		syscall.SIGQUIT: {"resize", "--add=49998"},
	} {
		t.Run(action[0], func(t *testing.T) {
			t.Parallel()
			b := calmBroker(t)
			c := contest{t, []string{"--broker", b.URL()}, "semaphore", unique("semaphore")}
			if action[0] == "resize" {
				c.administer("create", "--slots=2")
			}
			defer c.administer("destroy")
			a := start(t, c.administration(action[0], action[1:]...)...)
			until(t, "the tenth slot", func() bool {
				_, found, err := b.Queue(t.Context(), "/", c.name+"-10-A")
				return err == nil && found
			})
			a.signal(end)
			a.wantStatus(128 + int(end))
			a.wantOneLine("stopped on the way",
				"to finish use: berth semaphore resize "+c.name+" --slots 50000 (ended by "+signals.Name(end)+")")
		})
	}
}

func TestWaitThatWasBrokenOffDoesNotRemoveMoreWhenItGoesOn(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "semaphore")
		c.administer("create", "--slots=5")
		all := c.crew(5)
		all.awaitSlots("1", "2", "3", "4", "5")
		stuck := all.in("5")
		stuck.signal(syscall.SIGSTOP)
		a := start(t, c.administration("resize", "--remove=2", "--wait")...)
		until(t, "the wait for the holders", func() bool { return strings.Contains(a.stderr(), "waiting until") })
		a.signal(syscall.SIGTERM)
		a.wantStatus(143)
		want := "to go on waiting use: berth " + c.kind + " resize " + c.name + " --slots 3 --wait"
		if !strings.Contains(a.stderr(), want) {
			t.Errorf("it said %q, without %q", a.stderr(), want)
		}
		stuck.signal(syscall.SIGCONT)
		c.administer("resize", "--slots=3", "--wait")
		stuck.wantNoCommand()
		all.awaitSlots("1", "2", "3")
	}, everySemaphore...)
}
