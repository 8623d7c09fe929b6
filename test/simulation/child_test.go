//go:build simulation

package simulation

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/simulation/overlay"
)

// exact has what comes be the same for the same seed. nil: this program was not built for that, see build.
var exact func(seed uint64)

// child runs a test in a program that build has built, and returns what it has written.
func child(t *testing.T, binary string, flags ...string) (string, error) {
	t.Helper()
	run := exec.Command(binary, append([]string{"-test.timeout=0"}, flags...)...)
	run.Env = append(os.Environ(), "GOMAXPROCS=1")
	out := &strings.Builder{}
	run.Stdout, run.Stderr = out, out
	err := run.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return out.String(), err
}

// build builds a program that is for exact, and has those changes to berth, and returns its path.
func build(t *testing.T, changes []overlay.Change) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "exact.test")
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	clock, err := wallClocks()
	if err != nil {
		t.Fatal(err)
	}
	changes = append(changes, clock...)
	list, err := overlay.Write(t.TempDir(), append(overlay.Runtime(strings.TrimSpace(string(root))), changes...))
	if err != nil {
		t.Fatal(err)
	}
	// The whole standard library is compiled with it, and nothing else: so as costs least.
	compile := exec.Command("go", "test", "-c", "-tags", "simulation,exact", "-overlay", list, "-o", binary,
		"-gcflags=all=-dwarf=false", "-ldflags=-s -w", ".")
	compile.Env = append(os.Environ(), "GOGC=400")
	built, err := compile.CombinedOutput()
	if err != nil {
		t.Fatalf("cannot build the simulation: %v\n%s", err, built)
	}
	return binary
}

// wallClocks has each host have a wall clock of its own, by which terms go.
func wallClocks() ([]overlay.Change, error) {
	file, err := filepath.Abs("../../lock/rabbit/ledger/doubt.go")
	return []overlay.Change{
		{File: file, Old: "func clock() uint64 { return uint64(max(time.Now()",
			New: "// Now is the simulated wall clock.\nvar Now = time.Now\n\nfunc clock() uint64 { return uint64(max(Now()"},
		{File: file, Old: "\treturn uint64(max(time.Now()", New: "\treturn uint64(max(Now()"},
	}, err
}
