package e2e

import (
	"strings"
	"testing"

	"berth/test/brokertest"
)

// permit does what a command of rabbitmqctl says, which berth has printed for another user.
func permit(t *testing.T, broker *brokertest.Broker, vhost, user, command string) {
	t.Helper()
	words := strings.Split(command, "'")
	if len(words) != 7 || !strings.HasPrefix(words[0], "rabbitmqctl set_permissions -p "+vhost+" ") {
		t.Fatalf("not a command with three patterns: %q", command)
	}
	if err := broker.SetPermissions(t.Context(), user, vhost, words[1], words[3], words[5]); err != nil {
		t.Fatal(err)
	}
}

// wantNoComplaint checks that berth has said of nothing that it is not permitted.
func (b *berth) wantNoComplaint() {
	b.t.Helper()
	if strings.Contains(b.stderr(), "ermission") || strings.Contains(b.stderr(), "refused") {
		b.t.Errorf("something is not permitted: %s", b.stderr())
	}
}

// permitted is one kind of lock, and what an administrator does with it.
type permitted struct {
	kind                 string
	make, change, remove []string // nil: not made
	flags                []string
}

func TestPermissionsThatCheckPrintsAreEnoughAndNoMore(t *testing.T) {
	t.Parallel()
	broker := calmBroker(t)
	vhost := unique("locks")
	if err := broker.AddVhost(t.Context(), vhost); err != nil {
		t.Fatal(err)
	}
	slots := func(kind string, flags ...string) permitted {
		return permitted{kind, append([]string{"create", "--slots", "1"}, flags...), []string{"resize", "--add", "1"},
			[]string{"destroy", "--wait"}, nil}
	}
	for name, p := range map[string]permitted{
		"mutex":            {kind: "mutex"},
		"semaphore":        slots("semaphore"),
		"quorum mutex":     {kind: "mutex", flags: []string{"--queue-type", "quorum"}},
		"quorum semaphore": slots("semaphore", "--queue-type", "quorum"),
		"persistent-mutex": {"persistent-mutex", []string{"enable"}, nil, []string{"disable", "--wait"}, nil},
		"token-semaphore":  slots("token-semaphore"),
		"quorum":           slots("token-semaphore", "--queue-type", "quorum"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p.try(t, broker, vhost)
		})
	}
}

func (p permitted) try(t *testing.T, broker *brokertest.Broker, vhost string) {
	runner, administrator, name := unique("runner"), unique("administrator"), unique("m")
	for _, user := range []string{runner, administrator} {
		if err := broker.AddUser(t.Context(), user, "secret"); err != nil {
			t.Fatal(err)
		}
	}
	if err := broker.SetPermissions(t.Context(), runner, vhost, "", "", ""); err != nil { // it may log in
		t.Fatal(err)
	}
	as := func(user string) []string {
		return append([]string{"--broker", broker.URLFor(user, "secret", vhost), "--lock-users", runner, "--lock-users",
			administrator}, p.flags...)
	}
	said := check(t, 77, as(runner)[1], "--"+p.kind, name).Broker
	permit(t, broker, vhost, runner, said.Runner)
	if p.make != nil {
		permit(t, broker, vhost, administrator, said.Administrator)
	}
	ask := func(want int, user string, action []string) {
		t.Helper()
		if action != nil {
			b := do(t, want, append(append([]string{p.kind, action[0], name}, action[1:]...), as(user)...)...)
			if want == 0 {
				b.wantNoComplaint()
			}
		}
	}
	ask(0, administrator, p.make)
	if r := check(t, 0, as(runner)[1], "--"+p.kind, name); says(r.Problems, "ermission") {
		t.Errorf("a runner needs more: %q", r.Problems)
	}
	first, second := contest{t, as(runner), p.kind, name}, contest{t, as(runner), p.kind, name}
	holder := first.run(plain)
	holder.awaitRuns(1)
	waiter := second.run(plain)
	waiter.awaitLog("waiting: held by others")
	do(t, 0, append([]string{"status", "--" + p.kind, name}, as(runner)...)...).wantNoComplaint()
	do(t, 0, append([]string{"step-down", "--" + p.kind, name, "--wait"}, as(runner)...)...).wantNoComplaint()
	waiter.awaitRuns(1)
	ask(77, runner, p.change)
	ask(77, runner, p.remove)
	ask(0, administrator, p.change)
	for _, b := range []*berth{holder, waiter} {
		b.stays()
		b.wantNoComplaint()
	}
	if p.remove == nil {
		return
	}
	// It waits until both commands are dead.
	ask(0, administrator, p.remove)
	holder.wantNoComplaint()
}
