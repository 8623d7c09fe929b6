package repository

import (
	"os/exec"
	"strings"
	"testing"
)

// rules say which way imports point. only lists the packages of berth that a
// package may import.
var rules = []struct {
	pkg  string
	only []string
	why  string
}{
	{"berth/signals", nil, "it is pure"},
	{"berth/lock", []string{"berth/internal/boottime"}, "the contract knows no backend"},
	{"berth/lock/rabbit/names", []string{"berth/lock"}, "names are values"},
	{"berth/lock/rabbit/broker", []string{"berth/internal/brokerurl", "berth/internal/pemfile", "berth/lock"},
		"it is about reaching one node"},
	{"berth/lock/rabbit/transport", append(rabbit("broker"), "berth/internal/boottime"),
		"it does not know what queues and messages mean"},
	{"berth/lock/rabbit/session", rabbit("transport"), "connections know no locks"},
	{"berth/lock/rabbit/ledger", append(rabbit("names", "transport"), "berth/internal/boottime"),
		"records are there for every kind of lock"},
	{"berth/lock/rabbit/line", rabbit("names", "transport", "session"), "waiters stand in line for every kind of lock"},
	{"berth/lock/rabbit/slots", rabbit("names", "transport", "session"),
		"what exists does not depend on how it is held"},
	{"berth/lock/rabbit/claim", rabbit("transport"), "it is one queue, whatever it is claimed for"},
	{"berth/lock/rabbit/request", rabbit("transport"), "it is messages, whatever a request does"},
	{"berth/lock/rabbit/status", rabbit("names", "transport", "slots", "request"), "it looks, and does not contend"},
	{"berth/lock/rabbit/will", rabbit("broker", "transport", "ledger", "line"), "it knows what a will says, and no lock"},
	{"berth/lock/rabbit/token", rabbit("names", "transport", "session", "slots"),
		"a token says whose turn it is, and not who holds the slot"},
	{"berth/lock/rabbit/holding",
		append(rabbit("names", "transport", "session", "ledger", "line", "slots", "claim", "request", "will", "token"),
			"berth/internal/boottime"),
		"a holding does not know how its slot was found"},
	{"berth/lock/rabbit/contender",
		rabbit("names", "transport", "session", "ledger", "line", "slots", "request", "token", "holding"),
		"it gets a slot, and does not know what proves it"},
	{"berth/lock/rabbit/administration", rabbit("names", "transport", "ledger", "line", "slots", "token"),
		"administrators hold nothing"},
	{"berth/lock/rabbit/inspection", rabbit("names", "broker", "transport", "slots"), "it looks, and does not contend"},
	{"berth/lock/rabbit", append(rabbit("names", "broker", "transport", "ledger", "will", "contender",
		"administration", "inspection", "request", "status"), "berth/internal/boottime"),
		"a backend knows the contract and nothing of berth beyond it"},
	{"berth/lock/local",
		[]string{"berth/internal/boottime", "berth/internal/control", "berth/lock", "berth/lock/local/slotdir"},
		"a backend knows the contract and nothing of berth beyond it"},
	{"berth/lock/local/slotdir", []string{"berth/lock"}, "it knows files, and no contenders"},
	{"berth/lock/conformance", []string{"berth/lock"}, "the suite knows the contract only"},
	{"berth/lock/locktest", []string{"berth/internal/boottime", "berth/lock"}, "the fake knows the contract only"},
	{"berth/prover", append(prover("report", "judge", "history", "witness", "adapter", "fault", "campaign", "hold"),
		"berth/test/brokertest"), "what judges berth must not share its bugs"},
	{"berth/prover/history", nil, "what judges berth must not share its bugs"},
	{"berth/prover/judge", prover("history"), "what judges berth must not share its bugs"},
	{"berth/prover/report", prover("history", "judge"), "what judges berth must not share its bugs"},
	{"berth/prover/witness", prover("history"), "what judges berth must not share its bugs"},
	{"berth/prover/adapter", append(prover("history"), "berth/test/process"), "it starts a lock, and knows none"},
	{"berth/prover/fault", []string{"berth/test/brokertest", "berth/test/process", "berth/test/relay"},
		"it breaks what a lock depends on, and knows none"},
	{"berth/prover/campaign", append(prover("history", "witness", "adapter", "fault"), "berth/test/brokertest",
		"berth/test/process"), "it tries a lock, and does not judge"},
	{"berth/prover/hold", prover("adapter"), "it speaks with a lock, and does not judge"},
	{"berth/examples/single-consumer", nil, "users copy it, and have nothing of berth"},
	{"berth/test/examples",
		[]string{"berth/test/bench/measure", "berth/test/bench/report", "berth/test/brokertest", "berth/test/process",
			"berth/test/relay"},
		"it runs what users run, and judges it by what that writes"},
	{"berth/test/process", nil, "it knows processes, and not what they run"},
	{"berth/test/authority", nil, "it knows files, and not who reads them"},
	{"berth/test/page", nil, "it knows pages, and not what they are about"},
	{"berth/test/relay", nil, "it knows connections, and not what is said on them"},
	{"berth/test/simulation/rabbit", nil, "it is a broker, and must not know berth"},
	{"berth/test/simulation/history", nil, "what judges berth must not share its bugs"},
	{"berth/test/brokertest", []string{"berth/test/process"}, "it knows RabbitMQ, and must not know berth"},
	{"berth/test/broken", []string{"berth/test/simulation/overlay"}, "it replaces text, and needs nothing of what it breaks"},
	{"berth/test/mutants", nil, "it breaks packages, and knows none of them"},
	{"berth/test/bench",
		[]string{"berth/test/bench/compare", "berth/test/bench/measure", "berth/test/bench/report",
			"berth/test/bench/scale"},
		"it only says what is measured, and where the figures go"},
	{"berth/test/efficiency",
		[]string{"berth/lock", "berth/lock/rabbit",
			"berth/test/bench/measure", "berth/test/bench/report", "berth/test/brokertest", "berth/test/relay"},
		"it measures what a backend costs, and what there is without one"},
	{"berth/test/bench/compare",
		[]string{"berth/test/bench/measure", "berth/test/bench/report", "berth/test/brokertest", "berth/test/process"},
		"it measures the built binary, as it does others"},
	{"berth/test/bench/scale",
		[]string{"berth/lock", "berth/lock/rabbit",
			"berth/test/bench/measure", "berth/test/bench/report", "berth/test/brokertest"},
		"it measures what a backend costs, and nothing that is on top of it"},
	{"berth/test/bench/measure", []string{"berth/test/process", "berth/test/relay"}, "clocks and counters know no lock"},
	{"berth/test/bench/report", nil, "it knows numbers, and not how they are measured"},
	{"berth/supervisor", []string{"berth/lock", "berth/signals", "berth/internal/boottime", "berth/internal/guard/wire"},
		"it is the words that the others share: values, and interfaces that others implement"},
	{"berth/supervisor/machine", []string{"berth/internal/guard/wire", "berth/lock", "berth/supervisor"},
		"it decides, and needs neither a clock nor anybody who does what it decides"},
	{"berth/supervisor/calls", []string{"berth/lock", "berth/internal/boottime", "berth/supervisor/machine"},
		"it asks the lock, and knows neither guards nor what an answer means"},
	{"berth/supervisor/checks", []string{"berth/internal/boottime", "berth/supervisor"},
		"it has checks run, and knows neither states nor what a verdict means"},
	{"berth/supervisor/answers", []string{"berth/lock"}, "it sends, and knows neither questions nor answers"},
	{"berth/supervisor/loop", []string{"berth/lock", "berth/signals", "berth/internal/boottime",
		"berth/internal/guard/wire", "berth/supervisor", "berth/supervisor/answers", "berth/supervisor/calls", "berth/supervisor/checks", "berth/supervisor/machine"},
		"it does what the machine decides, with what the supervisor's interfaces give it"},
	{"berth/internal/guard", []string{"berth/supervisor", "berth/internal/boottime", "berth/internal/guard/launch",
		"berth/internal/guard/parent", "berth/internal/guard/procfs", "berth/internal/guard/rights",
		"berth/internal/guard/terminal", "berth/internal/guard/tree", "berth/internal/guard/wire"},
		"it implements what the supervisor declares, knows no lock, and speaks with the guard's process over the " +
			"wire alone"},
	{"berth/internal/guard/process", []string{"berth/signals", "berth/internal/boottime", "berth/internal/guard/parent",
		"berth/internal/guard/procfs", "berth/internal/guard/rights", "berth/internal/guard/terminal",
		"berth/internal/guard/tree", "berth/internal/guard/wire"},
		"it runs before each command, and must not need what the supervisor imports"},
	{"berth/internal/guard/launch", []string{"berth/internal/guard/parent", "berth/internal/guard/wire"},
		"it forks a guard, whoever wants it"},
	{"berth/internal/guard/entry", []string{"berth/internal/guard/launch", "berth/internal/guard/parent",
		"berth/internal/guard/process", "berth/internal/guard/wire"},
		"it runs before the rest of the program, and decides nothing"},
	{"berth/internal/guard/wire", []string{"berth/internal/boottime", "berth/internal/guard/rights"},
		"both sides need what it imports, and so does the supervisor, which speaks in its words"},
	{"berth/internal/guard/rights", nil, "it is about one process, whoever starts it"},
	{"berth/internal/guard/parent", []string{"berth/signals"}, "it is about children, whoever has them"},
	{"berth/internal/guard/procfs", []string{"berth/signals"}, "it is about processes, whatever is wanted of them"},
	{"berth/internal/guard/tree", []string{"berth/signals", "berth/internal/guard/procfs"},
		"it reaches a whole tree, and knows not why"},
	{"berth/internal/guard/terminal", []string{"berth/internal/guard/procfs", "berth/internal/tty"},
		"it is about who has the terminal, and knows not why a command ends"},
	{"berth/internal/guard/guardtest", []string{"berth/internal/guard/parent"}, "it is what tests begin with"},
	{"berth/internal/tty", nil, "it is about the device"},
	{"berth/internal/boottime", nil, "it is a clock"},
	{"berth/internal/control", []string{"berth/internal/guard/procfs", "berth/lock"},
		"it carries questions and answers, and knows neither what they mean nor what a slot is"},
	{"berth/internal/takeover", []string{"berth/internal/inquire"}, "it asks, and holds nothing"},
	{"berth/internal/observe", []string{"berth/lock", "berth/supervisor"},
		"it tells what a supervisor does, and knows nothing else"},
	{"berth/internal/observe/feed", []string{"berth/internal/boottime", "berth/internal/guard/rights", "berth/lock",
		"berth/signals", "berth/supervisor"},
		"it tells what a supervisor does, and knows nothing of who is told"},
	{"berth/internal/observe/web", []string{"berth/internal/observe/feed", "berth/supervisor"},
		"it serves what it is told, and knows nothing else"},
	{"berth/internal/administer", []string{"berth/internal/config", "berth/internal/interrupt", "berth/lock"},
		"it asks an administrator, whatever the backend"},
	{"berth/internal/backends",
		[]string{"berth/internal/config", "berth/lock", "berth/lock/local", "berth/lock/rabbit"},
		"it knows where locks live, and not what for"},
	{"berth/internal/check", []string{"berth/internal/backends", "berth/internal/config",
		"berth/internal/guard/rights", "berth/internal/logging", "berth/internal/management",
		"berth/internal/timing", "berth/lock", "berth/lock/rabbit"},
		"it reports on a configuration, and knows no flags"},
	{"berth/internal/inquire", []string{"berth/internal/config", "berth/internal/control", "berth/lock",
		"berth/supervisor"},
		"it asks an inspector, whatever the backend, or a process, whatever that holds"},
	{"berth/internal/display", []string{"berth/internal/inquire", "berth/lock", "berth/supervisor"},
		"it draws, whatever the backend"},
	{"berth/internal/management", []string{"berth/internal/pemfile", "berth/lock", "berth/lock/rabbit/names"},
		"it goes by the names of queues"},
	{"berth/internal/interrupt", []string{"berth/signals"}, "it is about contexts alone"},
	{"berth/internal/logging", []string{"berth/internal/config", "berth/internal/tty"},
		"it writes, whatever is logged"},
	{"berth/internal/runner", []string{"berth/internal/backends",
		"berth/internal/brokerurl", "berth/internal/config", "berth/internal/control",
		"berth/internal/guard", "berth/internal/guard/rights", "berth/internal/guard/wire", "berth/internal/identity",
		"berth/internal/inquire",
		"berth/internal/observe", "berth/internal/observe/feed", "berth/internal/takeover", "berth/internal/timing",
		"berth/internal/boottime", "berth/lock", "berth/signals",
		"berth/supervisor", "berth/supervisor/loop"},
		"it is given a configuration, and knows no command line"},
	{"berth/internal/cli/flags", []string{"berth/internal/brokerurl", "berth/internal/config"},
		"it reads a command line, whatever its commands do"},
	{"berth/internal/cli/pages", []string{"berth/internal/cli/flags", "berth/internal/config"},
		"it describes commands, whatever they do"},
	{"berth/internal/config", []string{"berth/internal/brokerurl", "berth/internal/guard/rights",
		"berth/internal/identity", "berth/internal/observe", "berth/internal/timing", "berth/internal/tty",
		"berth/lock", "berth/signals", "berth/supervisor"},
		"it is values, some of them the supervisor's, and reaches for nothing"},
	{"berth/internal/brokerurl", []string{"berth/internal/pemfile"}, "it is about texts, and no broker"},
	{"berth/internal/pemfile", nil, "it knows files, and not who is connected to"},
	{"berth/internal/identity", nil, "it is about the users of this host"},
	{"berth/internal/timing", []string{"berth/lock", "berth/signals"}, "it is arithmetic"},
	{"berth", []string{"berth/internal/backends", "berth/internal/cli", "berth/internal/guard/entry",
		"berth/internal/observe/feed", "berth/internal/observe/web"},
		"it only says which program a process is"},
}

// confined are libraries that belong to one place, or some that work together;
// nil is tests alone.
var confined = map[string][]string{
	"github.com/rabbitmq/amqp091-go": {"berth/lock/rabbit/transport", "berth/lock/rabbit/broker",
		"berth/examples/single-consumer", "berth/test/examples", "berth/test/efficiency"},
	"github.com/urfave/cli/v2": {"berth/internal/cli", "berth/internal/cli/flags",
		"berth/internal/cli/pages", "berth/prover"},
	"github.com/hashicorp/hcl/v2":              {"berth/internal/config"},
	"github.com/coreos/go-systemd/v22/daemon":  {"berth/internal/observe"},
	"github.com/moby/sys/mountinfo":            {"berth/internal/guard"},
	"github.com/michaelklishin/rabbit-hole/v2": {"berth/internal/management"},
	"berth/internal/guard/guardtest":           nil,
}

// rabbit returns these rooms below lock/rabbit, and the contract.
func rabbit(rooms ...string) []string {
	all := []string{"berth/lock"}
	for _, room := range rooms {
		all = append(all, "berth/lock/rabbit/"+room)
	}
	return all
}

// prover returns these rooms of the prover.
func prover(rooms ...string) (all []string) {
	for _, room := range rooms {
		all = append(all, "berth/prover/"+room)
	}
	return all
}

func TestImportsPointOneWay(t *testing.T) {
	imports := map[string][]string{}
	for _, module := range []string{".", "test/faults"} {
		out, err := exec.Command("go", "-C", top+"/"+module, "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`,
			"./...").Output()
		if err != nil {
			t.Fatalf("go list in %s: %v", module, err)
		}
		for line := range strings.Lines(string(out)) {
			fields := strings.Fields(line)
			imports[fields[0]] = fields[1:]
		}
	}
	for _, rule := range rules {
		if imports[rule.pkg] == nil {
			t.Errorf("%s does not exist; is the rule out of date?", rule.pkg)
		}
		for _, imported := range imports[rule.pkg] {
			if ours(imported) && !within(imported, rule.only) {
				t.Errorf("%s imports %s, but %s", rule.pkg, imported, rule.why)
			}
		}
	}
	for pkg, imported := range imports {
		for library, homes := range confined {
			if !within(pkg, homes) && within(library, imported) {
				t.Errorf("%s imports %s, which belongs to %s", pkg, library, strings.Join(homes, " and "))
			}
		}
	}
}

// What the guard's process imports is initialised before it, and so is whatever has a
// path that sorts before one of those: see package entry.
func TestGuardsProcessImportsLittle(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "berth/internal/guard/entry").Output()
	if err != nil {
		t.Fatal(err)
	}
	late := []string{"net", "path/filepath", "regexp", "runtime/debug"}
	for pkg := range strings.Lines(string(out)) {
		pkg = strings.TrimSpace(pkg)
		host, _, _ := strings.Cut(pkg, "/")
		if strings.Contains(host, ".") && pkg != "golang.org/x/sys/unix" || within(pkg, late) {
			t.Errorf("it imports %s", pkg)
		}
	}
}

func ours(pkg string) bool { return pkg == "berth" || strings.HasPrefix(pkg, "berth/") }

func within(pkg string, list []string) bool {
	for _, p := range list {
		if p == pkg {
			return true
		}
	}
	return false
}
