package main

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
	{"berth/lock", nil, "the contract knows no backend"},
	{"berth/lock/rabbit", []string{"berth/lock"}, "a backend knows the contract and nothing of berth beyond it"},
	{"berth/lock/local", []string{"berth/lock"}, "a backend knows the contract and nothing of berth beyond it"},
	{"berth/lock/locktest", []string{"berth/lock"}, "the suite knows the contract only"},
	{"berth/test/faults/checker", nil, "what judges berth must not share its bugs"},
	{"berth/test/faults/witness", nil, "what judges berth must not share its bugs"},
	{"berth/test/bench", []string{"berth/test/brokertest"}, "it measures the built binary"},
	{"berth/supervisor", []string{"berth/lock", "berth/signals", "berth/internal/boottime"},
		"it decides, and declares the interfaces of what it uses"},
	{"berth/internal/guard", []string{"berth/supervisor", "berth/signals", "berth/internal/boottime", "berth/internal/tty"},
		"it implements what the supervisor declares, and knows no lock"},
	{"berth/internal/observe", []string{"berth/lock", "berth/supervisor"}, "it tells what a supervisor does, and knows nothing else"},
	{"berth/internal/activation", nil, "it is about sockets alone"},
	{"berth/internal/config", []string{"berth/lock", "berth/signals", "berth/supervisor", "berth/internal/observe"},
		"it is values, some of them the supervisor's, and reaches for nothing"},
	{"berth", []string{"berth/internal/cli", "berth/internal/guard"}, "it only says which program a process is"},
}

// confined are libraries that belong to one place.
var confined = map[string]string{
	"github.com/rabbitmq/amqp091-go":          "berth/lock/rabbit",
	"github.com/urfave/cli/v2":                "berth/internal/cli",
	"github.com/hashicorp/hcl/v2":             "berth/internal/config",
	"github.com/coreos/go-systemd/v22/daemon": "berth/internal/observe",
}

func TestImportsPointOneWay(t *testing.T) {
	imports := map[string][]string{}
	for _, module := range []string{".", "test/faults"} {
		out, err := exec.Command("go", "-C", module, "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...").Output()
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
		for library, home := range confined {
			if pkg != home && within(library, imported) {
				t.Errorf("%s imports %s, which belongs to %s", pkg, library, home)
			}
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
