package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptLimit is far beyond what a script takes on a busy machine; it keeps one
// that hangs from taking the others with it.
const scriptLimit = 4 * time.Minute

func TestCommandLine(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:      "testdata",
		Deadline: time.Now().Add(scriptLimit),
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(binary)+string(os.PathListSeparator)+env.Getenv("PATH"))
			// The race detector otherwise sleeps for a second at every exit.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("BERTH_BROKER", "local://"+env.WorkDir+"/locks")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"await":   await,
			"oneline": oneLine,
		},
	})
}

// exits runs a program to its end and checks its exit status:
//
//	exits STATUS PROGRAM [ARG...]
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("%s exited with %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// await waits until a file exists and has something in it:
//
//	await FILE
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE")
	}
	path := ts.MkAbs(args[0])
	for end := time.Now().Add(scriptLimit / 2); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if info, err := os.Stat(path); err == nil && info.Size() > 0 {
			return
		}
	}
	ts.Fatalf("%s did not appear", args[0])
}

// oneLine checks that the last program said exactly one line on stderr and
// nothing on stdout, as every mistake must be answered.
func oneLine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: oneline")
	}
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("stdout has %q", out)
	}
	if text := ts.ReadFile("stderr"); strings.Count(text, "\n") != 1 ||
		!strings.HasSuffix(text, "\n") || !strings.HasPrefix(text, "berth") {
		ts.Fatalf("stderr is not one line that begins with berth: %q", text)
	}
}
