package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"berth/internal/guard/wire"
)

// The guard's process comes before each start of a command, and begins before what only
// the command line needs. This test's program imports what berth does.
func TestGuardStartsWithoutTheRestOfTheProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	guard := exec.Command(self)
	guard.Args = []string{wire.Name} // and nothing to do
	guard.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := guard.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "not to be started by hand") {
		t.Fatalf("it is no guard: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		pkg, isInit := strings.CutPrefix(line, "init ")
		pkg, _, _ = strings.Cut(pkg, " ")
		late := strings.HasPrefix(pkg, "github.com/") || within(pkg, []string{"net", "crypto/tls", "text/template"})
		if isInit && late {
			t.Errorf("%s is initialised before it", pkg)
		}
	}
}
