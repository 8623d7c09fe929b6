//go:build programs

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// celeryBroker is the tests' RabbitMQ, with a queue of its own.
func celeryBroker(t testing.TB, _ string) []string {
	return []string{"BROKER=" + calmBroker(t).URL(), "QUEUE=" + unique("celery")}
}

// counted are tasks that say which of them begin and end.
const counted = `import os, time
from celery import Celery
app = Celery('tasks', broker=os.environ['BROKER'])
app.conf.task_default_queue = os.environ['QUEUE']
def note(what, n):
    with open(what, 'a') as f: f.write('%d\n' % n)
@app.task
def task(n):
    note('begun', n)
    time.sleep(0.5)
    note('done', n)
`

// A new version takes over from a worker that always has a task in hand.
func TestTakeoverOfABusyCeleryWorkerLosesNoTask(t *testing.T) {
	t.Parallel()
	if begun, lost := takenOver(t, rounds); lost != 0 {
		t.Errorf("of %d tasks %d were not finished, or begun again", begun, lost)
	}
	if begun, lost := takenOver(t, 3, "--stop-to=tree"); lost == 0 {
		t.Errorf("every process told, of %d tasks none was lost: this says nothing about --stop-to first", begun)
	}
}

// takenOver has so many new versions take over, and returns how many tasks were begun, and how many of them were
// not finished, or begun more than once.
func takenOver(t *testing.T, times int, more ...string) (begun, lost int) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tasks.py"), []byte(counted), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(celeryBroker(t, dir), "PATH=/usr/bin:/bin")
	c := onBroker.contest(t, "mutex")
	worker := func(flags ...string) *berth {
		return setup{dir: dir, cwd: dir, env: env}.start(t, c.args(
			"exec python3 -m celery -A tasks worker --concurrency 1 --loglevel error",
			append(append(flags, patientStop), more...)...)...)
	}
	all := func(what string) []string { return lines(filepath.Join(dir, what)) }
	awaitMore := func() {
		now := len(all("begun"))
		until(t, "the next task", func() bool { return len(all("begun")) > now })
	}
	old := worker()
	if _, err := old.aside("/usr/bin/python3", "-c", "import tasks\nfor n in range(2000): tasks.task.delay(n)"); err != nil {
		t.Fatal(err)
	}
	awaitMore()
	for range times {
		now := worker("--takeover")
		now.awaitRunning()
		awaitMore()
		old.signal(syscall.SIGTERM)
		old.status()
		old = now
	}
	old.signal(syscall.SIGTERM)
	old.status()
	once := make(map[string]bool)
	for _, n := range all("begun") {
		begun++
		if once[n] || !slices.Contains(all("done"), n) {
			lost++
		}
		once[n] = true
	}
	t.Logf("%d takeovers: %d tasks begun, %d lost", times, begun, lost)
	return begun, lost
}
