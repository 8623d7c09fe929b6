package e2e

import (
	"testing"
)

// place is where a lock lives in a test, with what goes with it.
type place struct {
	name string
	// flags returns the flags that lead there.
	flags func(t testing.TB) []string
	// tokens: a semaphore is one of tokens there.
	tokens bool
}

var (
	onBroker = place{name: "broker", flags: func(t testing.TB) []string {
		return []string{"--broker", calmBroker(t).URL()}
	}}
	onHost = place{name: "host", flags: func(t testing.TB) []string { return []string{"--broker", localURL(t)} }}
	// Queues named the other way round.
	onBrokerNAL = place{name: "broker-N-A-L", flags: func(t testing.TB) []string {
		return []string{"--naming", "N-A-L", "--broker", calmBroker(t).URL()}
	}}
	onTokens = place{name: "tokens", flags: onBroker.flags, tokens: true}
	onQuorum = place{name: "quorum", tokens: true, flags: func(t testing.TB) []string {
		return []string{"--queue-type", "quorum", "--broker", calmBroker(t).URL()}
	}}
)

// contest is one lock, for which a test starts berths.
type contest struct {
	t     testing.TB
	flags []string
	kind  string // mutex, semaphore, persistent-mutex
	name  string
}

func (p place) contest(t testing.TB, kind string) contest {
	t.Helper()
	if p.tokens && kind == "semaphore" {
		kind = "token-semaphore"
	}
	return contest{t, p.flags(t), kind, unique(kind)}
}

// inPlaces runs a test once per place, beside others.
func inPlaces(t *testing.T, test func(t *testing.T, p place), places ...place) {
	t.Parallel()
	if len(places) == 0 {
		places = []place{onBroker, onHost}
	}
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
}

// args returns the command line of a run of a shell script under the lock.
func (c contest) args(script string, flags ...string) []string {
	args := append([]string{"run", "--" + c.kind, c.name}, c.flags...)
	return append(append(args, flags...), "--", "sh", "-c", script)
}

// run starts a berth that runs a shell script under the lock.
func (c contest) run(script string, flags ...string) *berth {
	c.t.Helper()
	return start(c.t, c.args(script, flags...)...)
}

// wantHeld checks that no slot is to be had.
func (c contest) wantHeld() {
	c.t.Helper()
	do(c.t, 75, c.args("true", "--try")...)
}

// wantFree checks that a slot is to be had at once.
func (c contest) wantFree() {
	c.t.Helper()
	do(c.t, 0, c.args("true", "--try")...)
}

// wantFreeSoon checks that a slot is to be had once the broker has noticed what
// happened to its last holder.
func (c contest) wantFreeSoon() {
	c.t.Helper()
	do(c.t, 0, c.args("true", "--timeout", patience.String())...)
}

// administer runs an administration command for the lock, to its end.
func (c contest) administer(action string, flags ...string) {
	c.t.Helper()
	do(c.t, 0, c.administration(action, flags...)...)
}

func (c contest) administration(action string, flags ...string) []string {
	args := append([]string{c.kind, action, c.name}, c.flags...)
	return append(args, flags...)
}
