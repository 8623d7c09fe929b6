package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// checkReport is what these tests read of `berth check --json`.
type checkReport struct {
	OK       bool     `json:"ok"`
	Problems []string `json:"problems"`
	Advice   []string `json:"advice"`
	Broker   *struct {
		Product       string `json:"product"`
		Version       string `json:"version"`
		Heartbeat     int    `json:"heartbeat_ms"`
		Slots         *int   `json:"slots"`
		QueueType     string `json:"queue_type"`
		Runner        string `json:"runner"`
		Administrator string `json:"administrator"`
	} `json:"broker"`
	Management *struct {
		Nodes []struct {
			Running bool `json:"running"`
		} `json:"nodes"`
		Ledger *struct {
			Queue   string   `json:"queue"`
			Members []string `json:"members"`
			Online  []string `json:"online"`
		} `json:"ledger"`
		Policies []struct {
			Name   string `json:"name"`
			Key    string `json:"key"`
			Unsafe bool   `json:"unsafe"`
		} `json:"policies"`
		Writers []string          `json:"writers"`
		Unknown map[string]string `json:"unknown"`
	} `json:"management"`
}

// check runs `berth check --connect --json` and returns its report.
func check(t *testing.T, want int, url string, flags ...string) checkReport {
	t.Helper()
	b := do(t, want, append([]string{"check", "--connect", "--json", "--broker", url}, flags...)...)
	text, err := os.ReadFile(b.path("stdout"))
	if err != nil {
		t.Fatal(err)
	}
	var r checkReport
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if strings.Contains(string(text)+b.stderr(), "secret") {
		t.Error("berth has told a password")
	}
	if r.OK != (want == 0) {
		t.Errorf("status %d and ok %v", want, r.OK)
	}
	return r
}

func says(texts []string, want string) bool { return strings.Contains(strings.Join(texts, "\n"), want) }

func TestCheckFindsAWorkingBrokerFit(t *testing.T) {
	t.Parallel()
	url, name := calmBroker(t).URL(), unique("s")
	r := check(t, 0, url, "--semaphore", name)
	if r.Broker == nil || r.Broker.Product != "RabbitMQ" || r.Broker.Version == "" || r.Broker.Heartbeat != 5000 {
		t.Fatalf("the broker is described as %+v", r.Broker)
	}
	if *r.Broker.Slots != 0 || !says(r.Advice, "berth semaphore create "+name) {
		t.Errorf("absent: %d slots, %q", *r.Broker.Slots, r.Advice)
	}
	do(t, 0, "semaphore", "create", name, "--slots", "2", "--broker", url)
	if r = check(t, 0, url, "--semaphore", name); *r.Broker.Slots != 2 {
		t.Errorf("%d slots", *r.Broker.Slots)
	}
	do(t, 0, "semaphore", "destroy", name, "--broker", url)
}

func TestCheckOfAHeldLockLeavesItHeld(t *testing.T) {
	t.Parallel()
	url, name := calmBroker(t).URL(), unique("m")
	b := start(t, "run", "--broker", url, "--mutex", name, "--", "sh", "-c", plain)
	b.awaitRuns(1)
	check(t, 0, url, "--mutex", name)
	do(t, 75, "run", "--try", "--broker", url, "--mutex", name, "--", "true")
	b.stays()
	if runs := b.runs(); len(runs) != 1 {
		t.Errorf("the command ran %d times", len(runs))
	}
}

func TestCheckSaysWhyTheBrokerWillNotDo(t *testing.T) {
	t.Parallel()
	broker := calmBroker(t)
	user, vhost, name := unique("user"), unique("vhost"), unique("m")
	for _, err := range []error{
		broker.AddUser(t.Context(), user, "secret"),
		broker.AddVhost(t.Context(), vhost),
		broker.SetPermissions(t.Context(), user, vhost, ".*", "", ".*"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if r := check(t, 77, broker.URLFor(user, "secret", vhost), "--mutex", name); !says(r.Problems,
		"write permission on the exchange amq.default") ||
		!strings.HasPrefix(r.Broker.Runner, "rabbitmqctl set_permissions -p "+vhost+" "+user+" ") {
		t.Errorf("no write permission: %q, %+v", r.Problems, r.Broker)
	}
	if r := check(t, 77, broker.URLFor(user, "wrongsecret", vhost), "--mutex", name); !says(r.Problems, user) {
		t.Errorf("wrong password: %q", r.Problems)
	}
	if r := check(t, 69, "amqp://u:secret@"+deadAddress(t), "--mutex", name); r.Broker != nil ||
		!says(r.Problems, "refused") {
		t.Errorf("unreachable: %q", r.Problems)
	}
	if r := check(t, 78, broker.URL(), "--mutex", name, "--heartbeat", "1s"); !says(r.Problems,
		"change --heartbeat") || r.Broker == nil {
		t.Errorf("unsafe timings: %q", r.Problems)
	}
}

func TestCheckAndStatusAskTheManagementPlugin(t *testing.T) {
	t.Parallel()
	broker := calmBroker(t)
	api, err := broker.EnableManagement(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	user, stranger, vhost, name := unique("user"), unique("stranger"), unique("vhost"), unique("s")
	eval := func(format string, args ...any) {
		t.Helper()
		if _, err := broker.Eval(t.Context(), fmt.Sprintf(format, args...)); err != nil {
			t.Fatal(err)
		}
	}
	if err := broker.AddVhost(t.Context(), vhost); err != nil {
		t.Fatal(err)
	}
	for who, write := range map[string]string{user: ".*", stranger: "^amq.default$"} {
		if err := broker.AddUser(t.Context(), who, "secret"); err != nil {
			t.Fatal(err)
		}
		if err := broker.SetPermissions(t.Context(), who, vhost, ".*", write, ".*"); err != nil {
			t.Fatal(err)
		}
	}
	url := broker.URLFor(user, "secret", vhost)
	where := []string{"--semaphore", name, "--queue-type", "quorum"}
	do(t, 0, "semaphore", "create", name, "--slots", "2", "--queue-type", "quorum", "--broker", url)
	asked := append(slices.Clone(where), "--management-url", api)

	// The login may not use the API at all.
	if r := check(t, 77, url, asked...); r.Management != nil || !says(r.Problems, "needs the tag management") {
		t.Errorf("without a tag: %+v, %q", r.Management, r.Problems)
	}
	// It may see policies, and neither nodes nor users.
	eval(`ok = rabbit_auth_backend_internal:set_tags(<<%q>>, [management], <<"operator">>).`, user)
	m := check(t, 0, url, asked...).Management
	if m == nil || m.Policies == nil || len(m.Policies) > 0 || m.Nodes != nil || m.Writers != nil ||
		!strings.Contains(m.Unknown["nodes"], "monitoring") || !strings.Contains(m.Unknown["writers"], "administrator") {
		t.Errorf("with the tag management: %+v", m)
	}
	if found := do(t, 0, "status", "--management-url", api, "--broker", url).stdout(); !strings.Contains(found, `"`+name+`"`) {
		t.Errorf("listed: %s", found)
	}
	// An administrator sees all.
	admin := strings.Replace(api, "http://", "http://guest:guest@", 1)
	r := check(t, 0, url, append(slices.Clone(where), "--management-url", admin)...)
	if m = r.Management; m == nil || len(m.Unknown) > 0 || len(m.Nodes) != 1 || !m.Nodes[0].Running || m.Ledger == nil ||
		len(m.Ledger.Members) != 1 || len(m.Ledger.Online) != 1 || !slices.Equal(m.Writers, []string{stranger}) {
		t.Errorf("as an administrator: %+v", m)
	}
	if says(r.Advice, "AMQP") || !says(r.Advice, "is a single node") || !says(r.Advice, stranger) {
		t.Errorf("advice: %q", r.Advice)
	}
	eval(`ok = rabbit_policy:set(<<%q>>, <<"all">>, <<"^(?!amq\\.)">>, [{<<"expires">>, 600000}], 0, <<"queues">>, <<"operator">>).`,
		vhost)
	if r := check(t, 78, url, asked...); !says(r.Problems, `policy "all" (expires 600000) is in force for queue "`+name+`-Q-1-A"`) ||
		!r.Management.Policies[0].Unsafe || r.Management.Policies[0].Key != "expires" {
		t.Errorf("problems: %q, %+v", r.Problems, r.Management)
	}
}
