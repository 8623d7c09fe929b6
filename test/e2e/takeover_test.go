package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// deployed writes down when it runs, and that it was not alone.
const deployed = `mkdir "$DEPLOY/one" || echo overlap >>"$DEPLOY/overlaps"
	echo "begin $(date +%s%N)" >>"$DEPLOY/log"
	trap 'echo "end $(date +%s%N)" >>"$DEPLOY/log"; rmdir "$DEPLOY/one"; exit 0' TERM
	echo >>"$E2E_DIR/runs"; while :; do sleep 0.01; done`

// rounds is how often a new version takes over in the test.
const rounds = 20

// A rolling deployment: each new version takes over from the one before it, which is ended then.
func TestNewVersionsTakeOverOneAfterTheOther(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		dir := t.TempDir()
		where := setup{env: []string{"DEPLOY=" + dir}}
		old := where.start(t, c.args(deployed)...)
		old.awaitRuns(1)
		for range rounds {
			now := where.start(t, c.args(deployed, "--takeover")...)
			now.awaitRuns(1)
			old.signal(syscall.SIGTERM)
			<-old.done
			old = now
		}
		old.signal(syscall.SIGTERM)
		old.wantStatus(0)
		if said, err := os.ReadFile(filepath.Join(dir, "overlaps")); err == nil {
			t.Errorf("two ran at once: %s", said)
		}
		t.Log("from one command's end to the next one's beginning:", gaps(t, filepath.Join(dir, "log")))
	})
}

// gaps returns the times from each end to the beginning after it.
func gaps(t *testing.T, log string) (all []time.Duration) {
	t.Helper()
	var ended int64
	for _, line := range lines(log) {
		what, text, _ := strings.Cut(line, " ")
		at, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if what == "end" {
			ended = at
		} else if ended != 0 {
			all = append(all, time.Duration(at-ended).Round(100*time.Microsecond))
		}
	}
	if len(all) != rounds {
		t.Error(fmt.Sprint(len(all), " takeovers"))
	}
	return all
}

// Nobody is asked to step down before the new version says that it is ready.
func TestTakeoverWaitsForWhatIsReady(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		old := c.run(tree, quickStop)
		old.awaitRuns(1)
		file := filepath.Join(t.TempDir(), "ready")
		now := c.run(tree, quickStop, "--takeover", "--ready-file", file)
		now.awaitLog("not taking over before this berth is ready")
		holdsFor(t, 500*time.Millisecond, func() bool { return old.undisturbed() && len(now.runs()) == 0 })
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		now.awaitRuns(1)
		old.awaitLog("asked to step down")
		old.stays()
	})
}

// It says what it was waiting for, and nothing of the ready command outlives berth.
func TestTakeoverThatIsTooLateSaysWhy(t *testing.T) {
	c := onHost.contest(t, "mutex")
	old := c.run(tree, quickStop)
	old.awaitRuns(1)
	now := c.run(tree, "--takeover", "--timeout=3s", "--ready-command", "setsid sleep 1000 & exit 3")
	now.wantStatus(75)
	if !strings.Contains(now.stderr(), "waiting for the ready command, which failed at") ||
		!strings.Contains(now.stderr(), "it ended with 3") {
		t.Error("it does not say why")
	}
	if left := marked(now.mark); len(left) > 0 {
		t.Errorf("%d processes are left", len(left))
	}
	old.stays()
}

// A standby that had taken over itself waits as any other: the next new version goes before it.
func TestStandbyThatHadTakenOverMakesWay(t *testing.T) {
	c := onBroker.contest(t, "mutex")
	old := c.run(tree, quickStop, "--takeover")
	old.awaitRuns(1)
	c.run(tree, quickStop, "--takeover").awaitRuns(1)
	old.awaitLog("next in line")
	c.run(tree, quickStop, "--takeover").awaitRuns(1)
}

// The old version may be kept as a standby, also where it had taken over itself.
func TestWhoWasTakenOverDoesNotTakeBack(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		old := c.run(tree, quickStop, "--takeover")
		old.awaitRuns(1)
		now := c.run(tree, quickStop, "--takeover")
		now.awaitRuns(1)
		old.awaitLogs(len(old.logged("waiting: held by others"))+1, "waiting: held by others")
		holdsFor(t, 500*time.Millisecond, func() bool { return now.undisturbed() && len(old.runs()) == 1 })
	})
}
