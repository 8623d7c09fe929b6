package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/test/process"
)

// block returns the commands of examples/README.md that begin with ```sh NAME.
func block(t *testing.T, name string) string {
	t.Helper()
	return shown(t, "examples/README.md", "sh "+name)
}

// shown returns the block of a page that begins with ```KIND NAME.
func shown(t *testing.T, page, kindAndName string) string {
	t.Helper()
	all, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(all), "\n```"+kindAndName+"\n")
	text, _, ended := strings.Cut(rest, "\n```\n")
	if !found || !ended {
		t.Fatalf("%s has no %q", page, kindAndName)
	}
	return text
}

// place stands for a user's host: the top directory of the sources with examples, and a
// root directory in place of the real one. All hosts of a test are in one place.
type place struct {
	t       *testing.T
	dir     string
	env     []string
	started int
}

// newPlace makes one with locks of its own, or with those of a broker.
func newPlace(t *testing.T, url string) *place {
	t.Helper()
	p := &place{t: t, dir: t.TempDir()}
	if url == "" {
		url = "local://" + p.path("locks")
	}
	p.env = append(environment(), "PATH="+p.path("bin")+":"+p.path("usr/local/bin")+":"+binaries()+":"+os.Getenv("PATH"),
		"BERTH_BROKER="+url)
	if err := os.CopyFS(p.path("examples"), os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"bin", "etc/cron.d", "etc/systemd/system", "usr/local/bin", "srv/inbox", "srv/done"} {
		if err := os.MkdirAll(p.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p *place) path(name string) string { return filepath.Join(p.dir, name) }

// program writes one that commands find before any other.
func (p *place) program(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(p.path("bin/"+name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		p.t.Fatal(err)
	}
}

// moved has absolute paths of the text be below the place's directory.
func (p *place) moved(text string) string {
	for _, top := range []string{"/etc/", "/usr/local/", "/srv/"} {
		for _, before := range []string{" ", "=", ">"} {
			text = strings.ReplaceAll(text, before+top, before+p.dir+top)
		}
	}
	return text
}

// run runs commands to their end.
func (p *place) run(script string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-euc", p.moved(script))
	cmd.Dir, cmd.Env = p.dir, p.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("%s\n%v: %s", script, err, out)
	}
	return string(out)
}

// running is what goes on until it is ended, or the test.
type running struct {
	*process.Process
	out string // file
}

// start starts commands, of which the last goes on: berth.
func (p *place) start(script string, env ...string) running {
	p.t.Helper()
	at := strings.LastIndex("\n"+script, "\n")
	return p.launch([]string{"sh", "-euc", p.moved(script[:at] + "exec " + script[at:])}, env...)
}

// launch starts a program.
func (p *place) launch(line []string, env ...string) running {
	p.t.Helper()
	p.started++
	r := running{out: p.path("out" + string(rune('0'+p.started)))}
	out, err := os.Create(r.out)
	if err != nil {
		p.t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.dir, append(p.env, env...), out, out
	if r.Process, err = process.Start(cmd); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		_ = r.Signal(syscall.SIGTERM) // it may have ended
		r.End(endTimeout)
		if p.t.Failed() {
			p.t.Logf("%s:\n%s", line, r.said())
		}
	})
	return r
}

func (r running) said() string {
	text, _ := os.ReadFile(r.out)
	return string(text)
}

// await waits for something.
func (p *place) await(what string, there func() bool) {
	p.t.Helper()
	for end := time.Now().Add(patience); !there(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("%s did not come within %s", what, patience)
		}
	}
}

// awaitSaid waits until one of some has said a text, and returns it.
func (p *place) awaitSaid(text string, some ...running) (found running) {
	p.t.Helper()
	p.await(text, func() bool {
		for _, r := range some {
			if strings.Contains(r.said(), text) {
				found = r
				return true
			}
		}
		return false
	})
	return found
}

// A reader of the page finds every file that it shows, and none is left out.
func TestPageHasEveryExample(t *testing.T) {
	page, err := os.ReadFile("../../examples/README.md")
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir("../../examples", func(path string, d os.DirEntry, err error) error {
		name, _ := filepath.Rel("../../examples", path)
		if err == nil && !d.IsDir() && name != "README.md" && !bytes.Contains(page, []byte("]("+name+")")) {
			t.Errorf("it does not link to %s", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
