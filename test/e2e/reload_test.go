package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// reload asks this berth by its process to reload, which ends with status want.
func (b *berth) reload(want int, flags ...string) *berth {
	b.t.Helper()
	return do(b.t, want, append([]string{"reload", "--pid", strconv.Itoa(b.pid())}, flags...)...)
}

// configured starts a berth with a file, that rewrite replaces.
func (c contest) configured() (b *berth, rewrite func(settings string)) {
	c.t.Helper()
	dir := c.t.TempDir()
	path := filepath.Join(dir, "berth.hcl")
	rewrite = func(settings string) {
		text := fmt.Sprintf("command = [\"sh\", \"-c\", %q]\n%s\n", plain, settings)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	rewrite("")
	args := append([]string{"run", "--config", path, "--" + c.kind, c.name}, c.flags...)
	return setup{dir: dir}.start(c.t, args...), rewrite
}

func TestReloadReachesThisBerthAndNoOther(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		holder := c.run(plain)
		holder.awaitRuns(1)
		standby, rewrite := c.configured()
		standby.awaitLog("waiting: held by others")
		rewrite("broken =")
		if said := standby.reload(75).stderr(); !strings.Contains(said, "refuses") {
			t.Errorf("of a file that is broken it says %q", said)
		}
		rewrite(`on_acquire = ["sh", "-c", "echo reloaded >>$E2E_DIR/turns"]` + "\nrestart = \"always\"")
		said := standby.reload(0).stdout()
		want := fmt.Sprintf("process %d reloads; these have changed: on-acquire; these stay as they were", standby.pid())
		if !strings.HasPrefix(said, want) {
			t.Errorf("it says %q", said)
		}
		if n := len(holder.logged("configuration reloaded")); n != 0 {
			t.Errorf("the holder has reloaded %d times", n)
		}
		holder.reload(0, "--json")
		holder.awaitLog("configuration reloaded")
		if n := len(holder.logged("configuration reloaded")); n != 1 {
			t.Errorf("the holder has reloaded %d times, and was asked once", n)
		}
		until(t, "a handover", func() bool { // on one host the same berth may win it again
			c.inquire(0, "step-down", "--wait")
			return len(standby.turns()) > 0
		})
		standby.wantTurns("reloaded")
		standby.awaitRuns(1)
	}, inquiries...)
}

func TestReloadNeedsNoBroker(t *testing.T) {
	t.Parallel()
	b := start(t, "run", "--broker", "amqp://"+deadAddress(t), "--mutex", "m", "--", "true")
	b.awaitLog("waiting")
	if got := object[struct {
		PID    int
		Heeded bool
	}](t, b.reload(0, "--json").stdout()); got.PID != b.pid() || !got.Heeded {
		t.Errorf("got %+v", got)
	}
	b.awaitLog("configuration reloaded")
}

func TestReloadOfWhoIsNoBerthFails(t *testing.T) {
	t.Parallel()
	said := do(t, 75, "reload", "--pid", strconv.Itoa(os.Getpid())).stderr()
	if !strings.Contains(said, "it is no 'berth run'") {
		t.Errorf("it says %q", said)
	}
}

func TestReloadOfABerthThatIsStoppedSaysSo(t *testing.T) {
	t.Parallel()
	b := onHost.contest(t, "mutex").run(plain)
	b.awaitRunning()
	b.reload(0)
	kill(t, b.pid(), syscall.SIGSTOP)
	if said := b.reload(75).stderr(); !strings.Contains(said, fmt.Sprintf("continue it with 'kill -CONT %d'", b.pid())) {
		t.Errorf("it says %q", said)
	}
	kill(t, b.pid(), syscall.SIGCONT)
	b.reload(0)
	if n := len(b.logged("configuration reloaded")); n != 2 {
		t.Errorf("it has reloaded %d times, and was asked twice while it ran", n)
	}
}

func TestStrangerMayNotHaveABerthReload(t *testing.T) {
	t.Parallel()
	b := onHost.contest(t, "mutex").run(plain)
	b.awaitRuns(1)
	dir, user := t.TempDir(), strconv.Itoa(aUser)
	for _, opened := range []string{filepath.Dir(dir), filepath.Dir(binary)} {
		if err := os.Chmod(opened, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	stranger := setup{via: []string{"setpriv", "--reuid=" + user, "--regid=" + user, "--clear-groups", "--"}}
	asked := stranger.start(t, "reload", "--pid", strconv.Itoa(b.pid()))
	asked.wantStatus(77)
	if said := asked.stderr(); !strings.Contains(said, "the user "+user+" may not ask this berth") {
		t.Errorf("it says %q", said)
	}
	if n := len(b.logged("configuration reloaded")); n != 0 {
		t.Errorf("it has reloaded %d times", n)
	}
}

func TestReloadOverTheBrokerNeedsASlotOfSeveral(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "semaphore")
		c.administer("create", "--slots=2")
		for range 2 {
			c.run(plain).awaitRunning()
		}
		if said := c.inquire(64, "reload").stderr(); !strings.Contains(said, "give --slot with one of") {
			t.Errorf("it says %q", said)
		}
		c.inquire(0, "reload", "--slot", "2")
	}, inquiries...)
}
