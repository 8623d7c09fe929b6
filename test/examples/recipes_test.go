package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// recipe returns the block of docs/recipes.md that begins with ```KIND NAME.
func recipe(t *testing.T, kindAndName string) string {
	t.Helper()
	return shown(t, "docs/recipes.md", kindAndName)
}

// sh returns a run of a recipe, where the programs are that it calls.
func (p *place) sh(text string) *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", text)
	cmd.Dir, cmd.Env = p.path("bin"), p.env
	return cmd
}

// read returns what a program has written.
func (p *place) read(name string) string {
	data, _ := os.ReadFile(p.path("bin/" + name))
	return string(data)
}

// awaitLines waits until a program has written so many lines.
func (p *place) awaitLines(name string, lines int) {
	p.t.Helper()
	p.await(fmt.Sprintf("%d lines of %s", lines, name), func() bool { return strings.Count(p.read(name), "\n") >= lines })
}

func TestCronJobRunsOnOneHostOnly(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "")
	p.program("report", "echo begin >>log; while [ ! -e go ]; do sleep 0.01; done; exit 3")
	first := p.sh(recipe(t, "sh cron"))
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	p.awaitLines("log", 1)
	if out, err := p.sh(recipe(t, "sh cron")).CombinedOutput(); err != nil {
		t.Errorf("the second host: %v: %s", err, out)
	}
	if err := os.WriteFile(p.path("bin/go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var ended *exec.ExitError
	if err := first.Wait(); !errors.As(err, &ended) || ended.ExitCode() == 0 {
		t.Errorf("a report that fails: %v", err)
	}
	if n := strings.Count(p.read("log"), "begin"); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

func TestCronJobKeepsTheLockForAWhile(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "")
	p.env = append(p.env, "KEEP=1000")
	p.program("report", "echo done >>log")
	first := p.sh("../examples/cron/once nightly-report ./report")
	first.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	p.awaitLines("log", 1)
	if out, err := p.sh("../examples/cron/once nightly-report ./report").CombinedOutput(); err != nil {
		t.Errorf("the second host: %v: %s", err, out)
	}
	if err := syscall.Kill(-first.Process.Pid, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	_ = first.Wait()
	if n := strings.Count(p.read("log"), "done"); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

func TestPipelinesDeployOneAfterTheOther(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "")
	p.program("deploy", `echo begin >>log; sleep 0.2; echo end >>log`)
	var all []*exec.Cmd
	for range 3 {
		cmd := p.sh(recipe(t, "sh pipeline"))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	if log := p.read("log"); log != strings.Repeat("begin\nend\n", 3) {
		t.Errorf("%q", log)
	}
}

func TestCancelledPipelineLetsTheNextOneBegin(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "")
	p.program("deploy", `echo begin >>log; if [ -e quick ]; then exit 0; fi; sleep 1000 & sleep 1000`)
	first := p.sh("exec " + recipe(t, "sh pipeline"))
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	p.awaitLines("log", 1)
	if err := os.WriteFile(p.path("bin/quick"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	second := p.sh(recipe(t, "sh pipeline"))
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	if err := second.Wait(); err != nil {
		t.Errorf("the next one: %v", err)
	}
}
