package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

const queue, mutex = "orders", "orders-consumer"

// scheme is a way to have one consumer at a time.
type scheme struct {
	title string
	berth bool
	flags []string // of the consumer
}

var schemes = []scheme{
	{title: "berth", berth: true},
	{title: "single active consumer", flags: []string{"-single-active"}},
	{title: "the same, which leaves at once", flags: []string{"-single-active", "-leave-at-once"}},
}

// heartbeat and timings are short ones, so that a partition does not take minutes: the
// broker notices one after 4 to 6 seconds, whichever client it does not hear from.
var (
	heartbeat = []string{"-heartbeat", "2s"}
	timings   = []string{"--heartbeat", "2s", "--verify-interval", "500ms", "--verify-timeout", "1s",
		"--loss", "TERM 500ms, KILL"}
)

// command returns what a host runs.
func (s *scene) command(n *network, name string) *exec.Cmd {
	url := "amqp://guest:guest@" + n.Addr() + "/"
	line := []string{s.programs.consumer, "-name", name, "-queue", queue, "-journal", s.journal.file.Name()}
	berth := []string{s.programs.berth, "run", "--mutex", mutex, "--stop", "TERM 30s, KILL"}
	if s.partitions > 0 {
		line, berth = append(line, heartbeat...), append(berth, timings...)
	}
	line = append(line, s.scheme.flags...)
	if s.scheme.berth {
		line = slices.Concat(berth, []string{"--"}, line)
	}
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(environment(), "BERTH_BROKER="+url, "AMQP_URL="+url)
	return cmd
}

// handOver has berth's holder give the lock to the next one, or the consumer end, as a
// user who stops its unit does.
func (s *scene) handOver(ctx context.Context, from *host) error {
	if !s.scheme.berth {
		return from.signal(syscall.SIGTERM)
	}
	cmd := exec.CommandContext(ctx, s.programs.berth, "step-down", "--mutex", mutex)
	cmd.Env = append(environment(), "BERTH_BROKER="+s.broker.URL())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("berth step-down: %w: %s", err, out)
	}
	return nil
}

// environment is the tests' own without what is berth's.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "BERTH_") })
}
