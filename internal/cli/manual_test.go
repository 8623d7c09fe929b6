package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/internal/config"
)

// rendered is what a reader of a manual page sees, without its layout.
func rendered(page string) string {
	return strings.NewReplacer(`\-`, "-", `\e`, `\`, `\fB`, "", `\fR`, "", `\fI`, "", `\&`, "").Replace(page)
}

func TestManualHasEveryCommandFlagVariableAndKey(t *testing.T) {
	page, file := rendered(Manual("2026-01-01")), rendered(FileManual("2026-01-01"))
	for _, path := range commandPaths() {
		if !strings.Contains(page, path) {
			t.Errorf("berth(1) does not have %q", path)
		}
		for _, o := range pages[path].options {
			if !strings.Contains(page, "\n"+strings.TrimSpace(o.Flag()+" "+o.Value)+"\n") {
				t.Errorf("berth(1) does not have %s of %q", o.Flag(), path)
			}
		}
	}
	for _, o := range config.RunOptions() {
		if o.Env() != "" && !strings.Contains(page, "variable: "+o.Env()) {
			t.Errorf("berth(1) does not have %s", o.Env())
		}
		if o.Key() == "" {
			continue
		}
		if !strings.Contains(file, "\n"+strings.TrimSpace(o.Key()+" "+o.Value)+"\n") {
			t.Errorf("berth.hcl(5) does not have %s", o.Key())
		}
		if o.Env() != "" && !strings.Contains(file, "variable: "+o.Env()) {
			t.Errorf("berth.hcl(5) does not have %s", o.Env())
		}
	}
	for _, status := range []string{"64", "69", "70", "75", "76", "77", "78", "126", "127"} {
		if !strings.Contains(page, "\n  "+status+" ") {
			t.Errorf("berth(1) does not have the exit status %s", status)
		}
	}
}

func TestCompletionsHaveEveryCommandAndFlag(t *testing.T) {
	for shell, flag := range map[string]func(name string) string{
		"bash": func(name string) string { return " --" + name + " " },
		"zsh":  func(name string) string { return "--" + name + "[" },
		"fish": func(name string) string { return " -l " + name + " " },
	} {
		script, err := Completion(shell)
		if err != nil {
			t.Fatal(err)
		}
		script = strings.ReplaceAll(script, `"`, " ")
		for _, path := range commandPaths() {
			words := strings.Fields(path)
			if !strings.Contains(script, words[len(words)-1]) {
				t.Errorf("%s: no %q", shell, path)
			}
			for _, o := range pages[path].options {
				if !strings.Contains(script, flag(o.Name)) {
					t.Errorf("%s: no --%s of %q", shell, o.Name, path)
				}
			}
		}
	}
	if _, err := Completion("csh"); err == nil {
		t.Error("there is one for csh")
	}
}

// The shell that every host of the tests has.
func TestBashCompletesTheCommandLine(t *testing.T) {
	script, err := Completion("bash")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "berth.bash")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	const complete = `source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _berth; printf "%s\n" "${COMPREPLY[@]}"`
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
		out, err := exec.Command("bash", slices.Concat([]string{"--norc", "-c", complete, "bash", file, "berth"}, c.words)...).CombinedOutput()
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
