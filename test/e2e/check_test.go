package e2e

import (
	"encoding/json"
	"os"
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
