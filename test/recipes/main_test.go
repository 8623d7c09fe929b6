// Package recipes runs the scripts of docs/recipes.md.
package recipes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const patience = 30 * time.Second

var binaries string // the directory that berth is in

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "berth-recipes-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "berth"), "berth")
	if out, err := build.CombinedOutput(); err != nil {
		panic(string(out))
	}
	binaries = dir
	return m.Run()
}

// script returns the block of the page that begins with ```KIND NAME.
func script(t *testing.T, kindAndName string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "\n```"+kindAndName+"\n")
	text, _, ended := strings.Cut(rest, "\n```\n")
	if !found || !ended {
		t.Fatalf("docs/recipes.md has no %q", kindAndName)
	}
	return text
}

// place is a directory with locks of its own, for the programs that a script names.
type place struct {
	t   *testing.T
	dir string
	env []string
}

func newPlace(t *testing.T) *place {
	dir := t.TempDir()
	env := append(os.Environ(), "PATH="+binaries+":"+os.Getenv("PATH"), "BERTH_BROKER=local://"+filepath.Join(dir, "locks"))
	return &place{t, dir, env}
}

// program writes one that a recipe calls.
func (p *place) program(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		p.t.Fatal(err)
	}
}

// sh returns a run of the script.
func (p *place) sh(text string) *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", text)
	cmd.Dir, cmd.Env = p.dir, p.env
	return cmd
}

func (p *place) read(name string) string {
	data, _ := os.ReadFile(filepath.Join(p.dir, name))
	return string(data)
}

// await waits until the file has this many lines.
func (p *place) await(name string, lines int) {
	p.t.Helper()
	for end := time.Now().Add(patience); strings.Count(p.read(name), "\n") < lines; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("%s: %q, want %d lines", name, p.read(name), lines)
		}
	}
}
