package adapter_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/prover/adapter"
	"berth/test/process"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWordsAreSplitBeforeTheyAreFilledIn(t *testing.T) {
	words, err := adapter.Parse(" run  --lock={lock}/{slots} {witness} ", adapter.Lock, adapter.Slots, adapter.Witness)
	if err != nil {
		t.Fatal(err)
	}
	got := words.With(adapter.Values{adapter.Lock: "a b", adapter.Slots: "3", adapter.Witness: "{lock}"})
	if want := []string{"run", "--lock=a b/3", "{lock}"}; !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
	if !words.Has(adapter.Slots) || words.Has(adapter.Broker) {
		t.Error("which placeholders there are is not known")
	}
}

func TestCommandLineThatCannotBeMeantIsRefused(t *testing.T) {
	for line, want := range map[string]string{
		"":                        "empty",
		"flock {lok} {witness}":   "unknown placeholder {lok}",
		"sh -c 'flock {witness}'": "make a script of it",
	} {
		if words, err := adapter.Parse(line, adapter.Lock, adapter.Witness); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v", line, words, err)
		}
	}
}

// patience is over after a while.
func patience(t *testing.T, lasts time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), lasts)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, words ...string) (c *adapter.Client, output func() string) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if c, err = adapter.Template(words).Start(os.Environ(), log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.End(patience(t, 0)) })
	return c, func() string {
		text, _ := os.ReadFile(log.Name())
		return string(text)
	}
}

func TestHowAClientEndedIsKnown(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 75": 75, "kill -KILL $$": 128 + 9} {
		c, _ := start(t, "sh", "-c", script)
		if at, status := c.Until(); status != want || at < c.At || !c.Ended() {
			t.Errorf("%s: %d at %d, from %d", script, status, at, c.At)
		}
	}
}

func TestClientLeadsASession(t *testing.T) {
	c, output := start(t, "sh", "-c", "ps -o sid= -p $$")
	if _, status := c.Until(); status != 0 {
		t.Fatal(output())
	}
	if session, pid := strings.TrimSpace(output()), c.PID(); session != strconv.Itoa(pid) {
		t.Errorf("session %s, process %d", session, pid)
	}
}

func TestEndReachesTheWholeGroupAndKillsWhatDoesNotObey(t *testing.T) {
	polite, _ := start(t, "sh", "-c", "sleep 60; exit 3")
	for over := time.Now().Add(20 * time.Second); len(process.Descendants(polite.PID())) == 0 && time.Now().Before(over); {
		time.Sleep(time.Millisecond)
	}
	killed := polite.End(patience(t, 20*time.Second))
	if _, status := polite.Until(); killed != 0 || status != 128+int(syscall.SIGTERM) {
		t.Errorf("status %d, killed at %d", status, killed)
	}
	stubborn, output := start(t, "sh", "-c", "trap '' TERM; echo ready; sleep 60; sleep 60")
	for over := time.Now().Add(20 * time.Second); output() == "" && time.Now().Before(over); {
		time.Sleep(time.Millisecond)
	}
	killed = stubborn.End(patience(t, 10*time.Millisecond))
	if until, status := stubborn.Until(); killed < stubborn.At || killed > until || status != 128+int(syscall.SIGKILL) {
		t.Errorf("status %d at %d, killed at %d", status, until, killed)
	}
}

func TestProgramThatIsNotThereIsNamed(t *testing.T) {
	if _, err := adapter.Template([]string{"/nonexistent/program"}).Start(nil, nil); err == nil ||
		!strings.Contains(err.Error(), "/nonexistent/program") {
		t.Errorf("%v", err)
	}
}
