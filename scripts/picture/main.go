// Command picture records the pictures of README.md: a lock that goes from a berth that is
// killed to the next one, and what `berth check` prints.
//
//	picture ./berth docs      # writes docs/takeover.svg and docs/check.svg
//
// Both berths run on this machine, against a private RabbitMQ, and each in a host name of its
// own, for which it takes root. The prompts are written here; all else is what programs print,
// when they print it.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"berth/test/brokertest"
	"berth/test/process"
)

// importer is the command that runs under the lock.
const importer = `#!/bin/sh
while :; do
	echo "importing batch $((n += 1))"
	sleep 1
done
`

// patience bounds each wait for a line.
const patience = 30 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: picture BERTH DIRECTORY")
		os.Exit(2)
	}
	if err := run(ctx, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "picture: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, berth, directory string) (err error) {
	berth, err = filepath.Abs(berth)
	if err != nil {
		return err
	}
	timeline, err := check(ctx, berth)
	if err != nil {
		return err
	}
	takeover, err := record(ctx, berth)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(directory, "check.svg"), []byte(draw("What berth check prints", timeline)), 0o644),
		os.WriteFile(filepath.Join(directory, "takeover.svg"),
			[]byte(draw("A berth is killed, and the next one starts its command", takeover...)), 0o644))
}

// check returns what `berth check` prints of a mutex, up to the end of the timeline.
func check(ctx context.Context, berth string) (*pane, error) {
	line := "berth check --mutex importer"
	cmd := exec.CommandContext(ctx, berth, strings.Fields(line)[1:]...)
	cmd.Env = []string{"BERTH_BROKER=amqp://localhost"}
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("cannot run %s: %w", line, err)
	}
	p := &pane{title: "any host", columns: 76}
	p.add(0, "$ "+line)
	_, after, found := strings.Cut(string(out), "earliest start of another holder\n")
	if !found {
		return nil, fmt.Errorf("%s has no timeline: %s", line, out)
	}
	for text := range strings.Lines(strings.TrimSuffix(string(out), after)) {
		p.add(0, strings.TrimSuffix(text, "\n"))
	}
	return p, nil
}

// scene is what a recording needs. One goroutine at a time adds to its panes: that of the event
// loop, record.
type scene struct {
	ctx   context.Context
	dir   string
	env   []string
	began time.Time
	lines chan said
}

// said is a line that a program in a pane has printed.
type said struct {
	pane *pane
	text string
}

// record has two berths contend, kills the one that holds the lock, and returns what their
// terminals have shown.
func record(ctx context.Context, berth string) (panes []*pane, err error) {
	broker, err := brokertest.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, broker.Stop()) }()
	dir, err := os.MkdirTemp("", "berth-picture-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "importer"), []byte(importer), 0o755); err != nil {
		return nil, err
	}
	s := &scene{ctx: ctx, dir: dir, began: time.Now(), lines: make(chan said),
		env: []string{"PATH=" + filepath.Dir(berth) + ":" + os.Getenv("PATH"), "BERTH_BROKER=" + broker.URL()}}
	web1, web2 := &pane{title: "web1", columns: 68}, &pane{title: "web2", columns: 68}
	other := &pane{title: "web1, another terminal", columns: 68}

	first, err := s.start(web1)
	if err != nil {
		return nil, err
	}
	defer first.End(0)
	if err := s.await(web1, "batch 2"); err != nil {
		return nil, err
	}
	second, err := s.start(web2)
	if err != nil {
		return nil, err
	}
	defer second.End(0)
	if err := errors.Join(s.await(web2, "next in line"), s.await(web1, "batch 5")); err != nil {
		return nil, err
	}
	other.add(time.Since(s.began), fmt.Sprintf("$ kill -9 %d", first.PID()))
	if err := first.Signal(syscall.SIGKILL); err != nil {
		return nil, err
	}
	<-first.Done()
	web1.add(time.Since(s.began), "Killed") // as an interactive shell prints
	if err := s.await(web2, "batch 3"); err != nil {
		return nil, err
	}
	return []*pane{web1, other, web2}, nil
}

// start runs berth in a pane, as the process that it returns.
func (s *scene) start(p *pane) (*process.Process, error) {
	line := "berth run --mutex importer -- ./importer"
	p.add(time.Since(s.began), "$ "+line)
	cmd := exec.Command("unshare", "--uts", "sh", "-c", `hostname "$0" && exec `+line, p.title)
	cmd.Dir, cmd.Env = s.dir, s.env
	out, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	cmd.Stdout, cmd.Stderr = write, write
	go func() { // ends with the last process that has the pipe, or when the recording does
		defer out.Close()
		for lines := bufio.NewScanner(out); lines.Scan(); {
			select {
			case s.lines <- said{p, lines.Text()}:
			case <-s.ctx.Done():
				return
			}
		}
	}()
	return process.Start(cmd)
}

// await records until a pane shows a text.
func (s *scene) await(p *pane, text string) error {
	over := time.After(patience)
	for !p.shows(text) {
		select {
		case line := <-s.lines:
			line.pane.add(time.Since(s.began), line.text)
		case <-over:
			return fmt.Errorf("%s does not show %q within %s, but %v", p.title, text, patience, p.lines)
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
	return nil
}
