package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"
)

var reports = regexp.MustCompile(`report of term (\d+) (begins|ends)`)

// Of two beats one sends. When it is killed, the other one goes on, and nothing of the first comes after that.
func TestCeleryHasOneBeatAndKeepsTheTaskInHand(t *testing.T) {
	t.Parallel()
	p, _ := onBroker(t)
	p.program("celery", `exec /usr/bin/python3 -m celery "$@"`)
	p.env = append(p.env, "EVERY=0.3", "WORK=0.2")
	worker := p.start(block(t, "celery-worker"))
	first := p.start(block(t, "celery-beat"))
	p.awaitSaid("command started", first)
	second := p.start(block(t, "celery-beat"))
	p.awaitSaid("next in line", second)
	p.awaitSaid("report of term "+first.term(t)+" ends", worker)
	if err := first.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.awaitSaid("command started", second)
	p.awaitSaid("report of term "+second.term(t)+" begins", worker)
	if err := worker.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-worker.Done():
	case <-time.After(patience):
		t.Fatalf("the worker does not end within %s of TERM", patience)
	}
	var begun, ended []string
	for _, found := range reports.FindAllStringSubmatch(worker.said(), -1) {
		if found[2] == "begins" {
			begun = append(begun, found[1])
		} else {
			ended = append(ended, found[1])
		}
	}
	if !slices.IsSorted(begun) {
		t.Errorf("both beats have sent at the same time: %v", begun)
	}
	if !slices.Equal(begun, ended) {
		t.Errorf("of the reports %v only %v were made to the end", begun, ended)
	}
	if kept, _ := filepath.Glob(p.path("examples/celery/celerybeat*")); len(kept) > 0 {
		t.Errorf("a beat would send from %v what another one has sent meanwhile", kept)
	}
}

// term returns that of the only slot that a berth has held.
func (r running) term(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`command started: .* term=(\d+)`).FindStringSubmatch(r.said())
	if found == nil {
		t.Fatalf("it has not told its term: %s", r.said())
	}
	return found[1]
}
