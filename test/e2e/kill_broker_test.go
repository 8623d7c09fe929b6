package e2e

import (
	"context"
	"slices"
	"syscall"
	"testing"
	"time"

	"berth/test/brokertest"
)

// quickLoss is a loss sequence for trees that ignore TERM.
const quickLoss = "--loss=TERM 300ms, KILL"

// lossCase is something that takes a slot away from its holder.
type lossCase struct {
	name string
	kind string // of the lock
	// take takes it away.
	take func(t testing.TB, b *brokertest.Broker, c contest)
	// restore makes it obtainable again; nil: it is.
	restore func(t testing.TB, b *brokertest.Broker, c contest)
}

func deleteQueue(suffix string) func(testing.TB, *brokertest.Broker, contest) {
	return func(t testing.TB, b *brokertest.Broker, c contest) {
		t.Helper()
		if err := b.DeleteQueue(t.Context(), "/", c.name+suffix); err != nil {
			t.Fatal(err)
		}
	}
}

var calmLosses = []lossCase{
	{name: "B of a mutex deleted", kind: "mutex", take: deleteQueue("-1-B")},
	{name: "B of a semaphore deleted", kind: "semaphore", take: deleteQueue("-1-B")},
	{name: "A deleted", kind: "semaphore", take: deleteQueue("-1-A"),
		restore: func(t testing.TB, _ *brokertest.Broker, c contest) { c.administer("create", "--slots=1") }},
	{name: "persistent mutex disabled", kind: "persistent-mutex",
		take:    func(_ testing.TB, _ *brokertest.Broker, c contest) { c.administer("disable") },
		restore: func(_ testing.TB, _ *brokertest.Broker, c contest) { c.administer("enable") }},
}

func restart(t testing.TB, b *brokertest.Broker) {
	t.Helper()
	if err := b.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// made returns a contest for a new lock on a broker, with one slot.
func (l lossCase) made(t testing.TB, b *brokertest.Broker) contest {
	t.Helper()
	c := contest{t, []string{"--broker", b.URL()}, l.kind, unique(l.kind)}
	switch l.kind {
	case "semaphore":
		c.administer("create", "--slots=1")
	case "persistent-mutex":
		c.administer("enable")
	}
	return c
}

// holder is a berth with --on-loss exit or retry, in its first run.
type holder struct {
	*berth
	c     contest
	retry bool
	first []process // of the command
}

func (c contest) hold(retry bool) holder {
	c.t.Helper()
	h := c.start(retry)
	h.await()
	return h
}

// start starts a holder, await waits for its command.
func (c contest) start(retry bool) holder {
	c.t.Helper()
	flags := []string{quickLoss, quickStop, "--on-loss=exit"}
	if retry {
		flags = flags[:2]
	}
	return holder{berth: c.run(tree, flags...), c: c, retry: retry}
}

func (h *holder) await() {
	h.t.Helper()
	h.awaitRuns(1)
	h.first = h.wholeTree()
}

// wantLoss checks what has to follow when the slot was taken away.
func (h holder) wantLoss() {
	h.t.Helper()
	if !h.retry {
		h.wantStatus(76)
		h.wantNothingLeft()
		h.c.wantFreeSoon()
		return
	}
	h.awaitRuns(2)
	for _, p := range h.command() {
		if slices.ContainsFunc(h.first, func(old process) bool { return old.pid == p.pid }) {
			h.t.Errorf("%v of the first run is alive beside the second", p)
		}
	}
	h.c.wantHeld()
	h.signal(syscall.SIGTERM)
	h.wantStatus(143)
	h.wantNothingLeft()
	h.c.wantFree()
}

func (l lossCase) test(t *testing.T, retry bool) {
	broker := calmBroker(t)
	c := l.made(t, broker)
	h := c.hold(retry)
	l.take(t, broker, c)
	if l.restore != nil {
		h.wantNoCommand()
		if retry {
			h.awaitLog("waiting: the lock")
		}
		l.restore(t, broker, c)
	}
	h.wantLoss()
}

// fault: b-deleted, slot-removed
func TestSlotTakenAwayThenBerthEndsWith76(t *testing.T) {
	t.Parallel()
	for _, l := range calmLosses {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			l.test(t, false)
		})
	}
}

// fault: b-deleted, slot-removed
func TestSlotTakenAwayThenTheCommandRunsAgain(t *testing.T) {
	t.Parallel()
	for _, l := range calmLosses {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			l.test(t, true)
		})
	}
}

// fault: reset
//
// A connection is not the slot: a berth that claims the slot meanwhile waits.
func TestConnectionClosedByTheOperatorThenTheCommandGoesOn(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"mutex", "semaphore"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := lossCase{kind: kind}.made(t, calmBroker(t))
			h := c.hold(true)
			waiter := c.run(plain)
			waiter.awaitLog("waiting: held by others")
			closeConnections(t, c)
			h.awaitLog("slot reclaimed")
			h.awaitLog("slot verified again")
			if got := h.wholeTree(); got[0].pid != h.first[0].pid {
				t.Errorf("the command was %v and is %v", h.first, got)
			}
			if len(h.runs()) != 1 || len(waiter.runs()) != 0 {
				t.Errorf("runs of the holder %v and the waiter %v", h.runs(), waiter.runs())
			}
			h.signal(syscall.SIGTERM)
			h.wantStatus(143)
			h.wantNothingLeft()
			waiter.awaitRuns(1)
		})
	}
}

// fault: broker-restart, broker-away
//
// One restart for all that is to be said about one: it takes its time.
func brokerRestarted(t *testing.T) {
	broker := roughBroker(t)
	goesOn := lossCase{kind: "mutex"}.made(t, broker)
	goesOn.run("true").wantStatus(0)                    // makes the ledger
	h := goesOn.run(tree, "--heartbeat=60s", quickStop) // the longest lease: a busy machine takes a minute to restart a broker
	h.awaitRuns(1)
	first := h.wholeTree()
	numbered := lossCase{kind: "mutex"}.made(t, broker)
	before := numbered.term()
	young := youngHolders(t, broker)
	restart(t, broker)
	// A ledger that is older than a few seconds is there after a restart, and so
	// the slot can be claimed again.
	h.awaitLog("slot reclaimed")
	if got := h.wholeTree(); got[0].pid != first[0].pid || len(h.runs()) != 1 {
		t.Errorf("the command was %v and is %v", first, got)
	}
	h.signal(syscall.SIGTERM)
	h.wantStatus(143)
	h.wantNothingLeft()
	goesOn.wantFree()
	young.wantLoss()
	if after := numbered.term(); after <= before {
		t.Errorf("term %d was followed by %d", before, after)
	}
}

// fault: broker-away
func brokerKilledAndBack(t *testing.T) {
	broker := roughBroker(t)
	young := youngHolders(t, broker)
	if err := broker.Kill9(); err != nil {
		t.Fatal(err)
	}
	restart(t, broker)
	for _, h := range young {
		if !h.forgotten() {
			h.wantLoss()
			continue
		}
		h.signal(syscall.SIGTERM)
		h.wantStatus(143)
		h.wantNothingLeft()
	}
}

// forgotten reports whether the slot's ledger was lost as well with a broker that was killed. For all that its last
// holder can know somebody else has had the slot since, and so it waits for up to 2 min.
func (h holder) forgotten() (waits bool) {
	h.t.Helper()
	until(h.t, "a second run, or the wait for a lost ledger", func() bool {
		waits = len(h.logged("waiting because the ledger does not name the slot's last holder")) > 0
		return waits || len(h.runs()) > 1 || h.ended()
	})
	return waits
}

type holders []holder

// youngHolders returns holders whose ledgers have just been made: a broker that
// goes down may lose these. They are not young any more after 5 s: if a busy machine
// has taken nearly as long to start them, there are others.
func youngHolders(t testing.TB, broker *brokertest.Broker) holders {
	t.Helper()
	for tries := 1; ; tries++ {
		var contests []contest
		for _, kind := range []string{"mutex", "semaphore", "mutex", "semaphore"} {
			contests = append(contests, lossCase{kind: kind}.made(t, broker))
		}
		var all holders
		began := time.Now()
		for i, c := range contests {
			all = append(all, c.start(i < 2))
		}
		for i := range all {
			all[i].await()
		}
		if time.Since(began) < 3*time.Second || tries == 5 {
			return all
		}
		for _, h := range all {
			h.signal(syscall.SIGTERM)
			h.wantStatus(143)
		}
	}
}

func (all holders) wantLoss() {
	for _, h := range all {
		h.t.Helper()
		h.wantLoss()
	}
}

// fault: signal-waiting
func TestSignalEndsBerthWhileTheBrokerIsAway(t *testing.T) {
	t.Parallel()
	for sig, status := range endings {
		b := start(t, "run", "--broker", "amqp://"+deadAddress(t), "--mutex", "m", "--", "true")
		b.awaitLog("waiting")
		b.signal(sig)
		b.wantStatus(status)
		b.wantNothingLeft()
	}
}

// fault: broker-silent
//
// The broker is stopped, so that nothing is answered and nothing is closed.
func brokerSilentForLongerThanTheLease(t *testing.T) {
	broker := roughBroker(t)
	l := lossCase{kind: "mutex"}
	exits, retries := l.made(t, broker), l.made(t, broker)
	a := exits.run(tree, append(shortLease, "--on-loss=exit")...)
	b := retries.run(tree, append(shortLease, quickStop)...)
	a.awaitRuns(1)
	b.awaitRuns(1)
	if err := broker.Pause(); err != nil {
		t.Fatal(err)
	}
	a.wantNoCommand()
	b.wantNoCommand()
	if err := broker.Continue(); err != nil {
		t.Fatal(err)
	}
	a.wantStatus(76)
	b.awaitRuns(2)
	retries.wantHeld()
	b.signal(syscall.SIGTERM)
	b.wantStatus(143)
	a.wantNothingLeft()
	b.wantNothingLeft()
	exits.wantFreeSoon()
	retries.wantFree()
}

// fault: alarm
func alarmDisturbsNobody(t *testing.T) {
	broker := roughBroker(t)
	for name, a := range map[string]alarm{
		"memory": {broker.RaiseMemoryAlarm, broker.ClearMemoryAlarm},
		"disk":   {broker.RaiseDiskAlarm, broker.ClearDiskAlarm},
	} {
		t.Run(name, func(t *testing.T) { a.disturbsNobody(t, broker) })
	}
}

// alarm is one that a broker can be made to raise.
type alarm struct{ raise, clear func(context.Context) error }

func (a alarm) disturbsNobody(t *testing.T, broker *brokertest.Broker) {
	t.Helper()
	// A machine that is busy with something else may answer late: the lease is one
	// that this cannot use up, and the alarm is longer than that.
	timings := []string{"--heartbeat=3s", "--verify-interval=500ms", "--verify-timeout=2s", "--loss=TERM 1s, KILL"}
	const lasting = 7 * time.Second
	// Both kinds under the same alarm: it takes its time.
	type pair struct {
		held, left    contest
		stays, leaves *berth
	}
	var pairs []pair
	for _, kind := range []string{"mutex", "semaphore"} {
		l := lossCase{kind: kind}
		p := pair{held: l.made(t, broker), left: l.made(t, broker)}
		p.stays = p.held.run(tree, append(timings, quickStop)...)
		p.leaves = p.left.run(tree, append(timings, quickStop)...)
		pairs = append(pairs, p)
	}
	undisturbed := func() bool {
		return !slices.ContainsFunc(pairs, func(p pair) bool { return !p.stays.undisturbed() })
	}
	for _, p := range pairs {
		p.stays.awaitRuns(1)
		p.leaves.awaitRuns(1)
	}
	t.Cleanup(func() { a.end(t) })
	if err := a.raise(t.Context()); err != nil {
		t.Fatal(err)
	}
	holdsFor(t, lasting, undisturbed)
	for _, p := range pairs {
		p.leaves.signal(syscall.SIGTERM)
		p.leaves.wantStatus(143)
		p.leaves.wantNothingLeft()
		p.left.wantFreeSoon()
	}
	a.end(t)
	holdsFor(t, time.Second, undisturbed)
	for _, p := range pairs {
		p.held.wantHeld()
		p.stays.signal(syscall.SIGTERM)
		p.stays.wantStatus(143)
		p.stays.wantNothingLeft()
		p.held.wantFree()
	}
}

func (a alarm) end(t testing.TB) {
	t.Helper()
	// Not the test's context: that one has ended when it is cleaned up after.
	if err := a.clear(context.Background()); err != nil {
		t.Error(err)
	}
}

// undisturbed reports whether the whole tree of the first run is alive.
func (b *berth) undisturbed() bool {
	return len(b.runs()) == 1 && len(b.command()) == treeSize && len(b.logged("slot lost")) == 0
}

// holdsFor checks that a condition holds all the time for d: one that does not hold
// again once it has not.
func holdsFor(t testing.TB, d time.Duration, holds func() bool) {
	t.Helper()
	held := true
	for over := time.Now().Add(d); time.Now().Before(over); time.Sleep(100 * time.Millisecond) {
		before := held
		// Once may be a process that is just being executed, and shows no environment by which it is known.
		if held = holds(); !held && !before {
			t.Fatalf("what has to hold for %s does not hold any more", d)
		}
	}
	if !held && !holds() {
		t.Fatalf("what has to hold for %s does not hold at its end", d)
	}
}
