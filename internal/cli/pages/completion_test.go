package pages_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	urfave "github.com/urfave/cli/v2"

	"berth/internal/cli"
	"berth/internal/cli/flags"
	"berth/internal/cli/pages"
)

func TestCompletionsHaveEveryCommandAndFlag(t *testing.T) {
	for shell, flag := range map[string]func(name string) string{
		"bash": func(name string) string { return " --" + name + " " },
		"zsh":  func(name string) string { return "--" + name + "[" },
		"fish": func(name string) string { return " -l " + name + " " },
	} {
		script, err := pages.Completion(cli.NewApp(), shell)
		if err != nil {
			t.Fatal(err)
		}
		script = strings.ReplaceAll(script, `"`, " ")
		each(func(words []string, command *urfave.Command) {
			if !strings.Contains(script, command.Name) {
				t.Errorf("%s: no %q", shell, words)
			}
			for _, o := range flags.Options(command) {
				if !strings.Contains(script, flag(o.Name)) {
					t.Errorf("%s: no --%s of %q", shell, o.Name, words)
				}
			}
		})
	}
	if _, err := pages.Completion(cli.NewApp(), "csh"); err == nil {
		t.Error("there is one for csh")
	}
}

// The shell that every host of the tests has.
func TestBashCompletesTheCommandLine(t *testing.T) {
	script, err := pages.Completion(cli.NewApp(), "bash")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "berth.bash")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	const complete = `source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
		_berth; printf "%s\n" "${COMPREPLY[@]}"`
	for _, c := range []struct {
		words []string
		want  []string
	}{
		{[]string{""}, []string{"run", "semaphore", "persistent-mutex", "check", "completion", "version", "help"}},
		{[]string{"semaphore", ""}, []string{"create", "resize", "destroy"}},
		{[]string{"semaphore", "resize", "workers", "--rem"}, []string{"--remove"}},
		{[]string{"run", "--try", "--on-l"}, []string{"--on-loss"}},
		{[]string{"run", "--on-loss", ""}, []string{"retry", "exit"}},
		{[]string{"run", "--mutex", "run", "--config", filepath.Join(dir, "b")}, []string{file}},
		{[]string{"run", "--mutex", "semaphore", "--", "cat", filepath.Join(dir, "b")}, []string{file}},
		{[]string{"run", "--mutex", "m", "bas"}, []string{"bash"}},
		{[]string{"run", "--heartbeat", ""}, nil},
	} {
		out, err := exec.Command("bash", slices.Concat([]string{"--norc", "-c", complete, "bash", file, "berth"},
			c.words)...).CombinedOutput()
		if err != nil {
			t.Fatalf("bash: %v: %s", err, out)
		}
		got := strings.Fields(string(out))
		for _, want := range c.want {
			if !slices.Contains(got, want) {
				t.Errorf("%q: %q are offered, without %q", c.words, got, want)
			}
		}
		if c.want == nil && len(got) > 0 {
			t.Errorf("%q: %q are offered", c.words, got)
		}
	}
}
