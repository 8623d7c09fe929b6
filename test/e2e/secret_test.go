package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// told returns the processes whose arguments or environment have the text.
func told(text string, of []process) []process {
	var found []process
	for _, p := range of {
		for _, file := range []string{"cmdline", "environ"} {
			if strings.Contains(read(filepath.Join("/proc", fmt.Sprint(p.pid), file)), text) {
				found = append(found, p)
				break
			}
		}
	}
	return found
}

// The guard has it, to tell of the end of a tree whose supervisor is dead; who
// may list processes does not see it there.
func TestPasswordIsNotSeenInGuardAndCommand(t *testing.T) {
	t.Parallel()
	broker := calmBroker(t)
	user, password := unique("user"), unique("passphrase")
	if err := broker.AddUser(t.Context(), user, password); err != nil {
		t.Fatal(err)
	}
	if err := broker.SetPermissions(t.Context(), user, "/", ".*", ".*", ".*"); err != nil {
		t.Fatal(err)
	}
	c := contest{t, nil, "mutex", unique("m")} // its broker is in the environment
	b := setup{env: []string{"BERTH_BROKER=" + broker.URLFor(user, password, "/")}}.start(t, c.args(tree, quickStop)...)
	b.awaitRuns(1)
	below := b.wholeTree()
	guard, there := inspect(b.guardPID())
	supervisor, here := inspect(b.pid())
	if !there || !here {
		t.Fatal("berth and its guard are not both there")
	}
	if seen := told(password, append(below, guard)); len(seen) > 0 {
		t.Errorf("the password is told by %v", seen)
	}
	// What it was given; so what is not seen elsewhere is not there.
	if len(told(password, []process{supervisor})) == 0 {
		t.Error("the password is not seen where it has to be")
	}
	b.signal(syscall.SIGTERM)
	b.wantStatus(143)
	if strings.Contains(b.stderr(), password) {
		t.Error("the password was logged")
	}
}

// fault: supervisor-killed-alone
//
// It has to tell a broker that the tree is dead, and does not try for ever.
func supervisorKilledThenTheGuardEndsThoughNoBrokerAnswers(t *testing.T) {
	broker := roughBroker(t)
	for name, test := range map[string]struct{ silence, undo func() error }{
		"killed":  {broker.Kill9, func() error { return broker.Restart(t.Context()) }},
		"stopped": {broker.Pause, broker.Continue},
	} {
		t.Run(name, func(t *testing.T) {
			c := lossCase{kind: "mutex"}.made(t, broker)
			c.run("true").wantStatus(0)         // makes the ledger: a holder that just has sits out nothing
			b := c.run(tree, "--heartbeat=60s") // for longer than a term's release is tried
			b.awaitRuns(1)
			if err := test.silence(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := test.undo(); err != nil {
					t.Fatal(err)
				}
			}()
			b.wholeTree()
			b.signal(syscall.SIGKILL)
			b.wantNothingLeft()
		})
	}
}
