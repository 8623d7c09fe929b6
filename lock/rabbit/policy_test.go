package rabbit_test

import (
	"fmt"
	"testing"
	"time"

	"berth/lock"
	"berth/lock/rabbit"
)

// A policy for all queues takes records out of a ledger. That is safe, and makes
// every handover slow.
func TestPolicyThatSwallowsRecordsIsToldOf(t *testing.T) {
	t.Parallel()
	for what, definition := range map[string]string{
		"max-length 0":                   `[{<<"max-length">>, 0}]`,
		"message-ttl 0":                  `[{<<"message-ttl">>, 0}]`,
		"max-length 1":                   `[{<<"max-length">>, 1}]`,
		"max-length 1 and rejected else": `[{<<"max-length">>, 1}, {<<"overflow">>, <<"reject-publish">>}]`,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			id := fresh(lock.Mutex)
			setPolicy(t, id, "-", definition)
			cfg, said := journal()
			cfg.Heartbeat = time.Second
			for range 2 {
				l := backend(t, cfg).Lock(id)
				must(t, l.Connect(within(t)))
				h, err := l.Acquire(within(t))
				must(t, err)
				start(t, h)
				must(t, proven(within(t), h))
				must(t, proven(within(t), h))
				must(t, h.Release(within(t)))
				must(t, l.Close())
			}
			if said("policies") == 0 || said(id.Name+"-1-T") == 0 {
				t.Error("nobody is told why every handover takes so long")
			}
		})
	}
}

// setPolicy sets a policy for the queues of a lock whose names go on like this, until the test ends.
func setPolicy(t *testing.T, id lock.ID, rest, definition string) {
	t.Helper()
	_, err := shared.Eval(within(t), fmt.Sprintf(
		`ok = rabbit_policy:set(<<"/">>, <<"%[1]s">>, <<"^%[1]s%[2]s">>, %[3]s, 0, <<"queues">>, <<"operator">>).`,
		id.Name, rest, definition))
	must(t, err)
	t.Cleanup(func() {
		_, err := shared.Eval(within(t), fmt.Sprintf(`rabbit_policy:delete(<<"/">>, <<"%s">>, <<"operator">>).`, id.Name))
		must(t, err)
	})
}

func TestPolicyThatTakesReplicatedRecordsIsToldOf(t *testing.T) {
	t.Parallel()
	for what, definition := range map[string]string{
		"max-length 1":  `[{<<"max-length">>, 1}]`,
		"message-ttl 0": `[{<<"message-ttl">>, 0}]`,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			id := replicated(t, 1)
			setPolicy(t, id, ".*-T$", definition)
			cfg, said := journal()
			cfg.Heartbeat = time.Second
			l := backend(t, cfg).Lock(id)
			defer l.Close()
			must(t, l.Connect(within(t)))
			rabbit.SetLongest(l, time.Millisecond)
			for range 5 {
				var h lock.Held
				succeeds(t, "acquiring it", func() (err error) { // a ledger without a record is as one that somebody reads
					h, err = l.Acquire(within(t))
					return err
				})
				if h.Ready(within(t)) == nil {
					_ = h.Verify(within(t))
				}
				must(t, h.Release(within(t)))
				if said("policies") > 0 && said(ledgerOf(id)) > 0 {
					return
				}
			}
			t.Error("nobody is told why commands start late, or are ended")
		})
	}
}

func TestLedgerThatKeepsItsRecordsIsNotComplainedOf(t *testing.T) {
	id := fresh(lock.Mutex)
	cfg, said := journal()
	cfg.Heartbeat = time.Second
	for range 3 {
		h := holdingAs(t, cfg, id)
		must(t, proven(within(t), h))
		must(t, proven(within(t), h))
		must(t, h.Release(within(t)))
	}
	if said("policies") > 0 {
		t.Error("a policy is suspected that is not there")
	}
}
