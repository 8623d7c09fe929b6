package e2e

import (
	"slices"
	"strings"
	"syscall"
	"testing"
)

// overPlainProtocol are flags for a lock with the plain protocol, whose handovers take two seconds.
var overPlainProtocol = []string{"--protocol", "plain", "--heartbeat", "1s", "--verify-interval", "200ms", "--verify-timeout",
	"500ms", "--loss", "TERM 500ms, KILL", "--stop", "TERM 100ms, KILL"}

func TestPlainWireHandsASlotOver(t *testing.T) {
	t.Parallel()
	where := []string{"--mutex", unique("plain"), "--broker", calmBroker(t).URL()}
	run := func() *berth {
		return start(t, slices.Concat([]string{"run"}, where, overPlainProtocol, []string{"--", "sh", "-c", tree})...)
	}
	first := run()
	first.awaitRuns(1)
	looks := do(t, 0, slices.Concat([]string{"status", "--protocol", "plain"}, where)...)
	if !strings.Contains(looks.stdout(), "held") {
		t.Errorf("it looks like: %s", looks.stdout())
	}
	for verb, remedy := range map[string]string{"step-down": "send TERM to its berth", "reload": "berth reload --pid"} {
		asked := do(t, 75, slices.Concat([]string{verb, "--protocol", "plain"}, where)...).stderr()
		if !strings.Contains(asked, remedy) || strings.Contains(asked, "ask again") {
			t.Errorf("%s: who asks is told: %s", verb, asked)
		}
	}
	second := run()
	second.awaitLog("waiting: held by others")
	first.signal(syscall.SIGKILL)
	second.awaitRuns(1)
	first.wantNothingLeft()
	second.signal(syscall.SIGTERM)
	second.wantStatus(143)
	second.wantNothingLeft()
}

func TestPlainWireBesideTheFullOneIsRefused(t *testing.T) {
	t.Parallel()
	where := []string{"--mutex", unique("plain"), "--broker", calmBroker(t).URL()}
	full := start(t, slices.Concat([]string{"run"}, where, []string{"--", "sh", "-c", plain})...)
	full.awaitRuns(1)
	refused := do(t, 78, slices.Concat([]string{"run"}, where, overPlainProtocol, []string{"--", "true"})...)
	if !strings.Contains(refused.stderr(), "has a ledger") {
		t.Errorf("it is told: %s", refused.stderr())
	}
	full.stays()
}
