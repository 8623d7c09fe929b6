package e2e

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"berth/internal/guard/wire"
)

// The guard's process comes before each start of a command, and begins before what only
// the command line needs.
func TestGuardStartsWithoutTheRestOfTheProgram(t *testing.T) {
	t.Parallel()
	guard := exec.Command(binary)
	guard.Args = []string{wire.Name} // and nothing to do
	guard.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := guard.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "not to be started by hand") {
		t.Fatalf("it is no guard: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		pkg, isInit := strings.CutPrefix(line, "init ")
		pkg, _, _ = strings.Cut(pkg, " ")
		late := strings.HasPrefix(pkg, "github.com/") ||
			slices.Contains([]string{"net", "crypto/tls", "text/template"}, pkg)
		if isInit && late {
			t.Errorf("%s is initialised before it", pkg)
		}
	}
}
