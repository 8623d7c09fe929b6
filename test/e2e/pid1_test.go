package e2e

import (
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// container is a berth that is PID 1 of a namespace of its own.
type container struct {
	*berth
	inside int // its number outside
}

// contain starts one for a shell script. PIDs in what the script writes are
// those inside.
func contain(t *testing.T, script string, flags ...string) container {
	t.Helper()
	return containKind(t, "mutex", script, flags...)
}

func containKind(t *testing.T, kind, script string, flags ...string) container {
	t.Helper()
	if out, err := exec.Command("unshare", "--pid", "--fork", "--mount-proc", "true").CombinedOutput(); err != nil {
		t.Fatalf("cannot make a PID namespace, which needs root: %v: %s", err, out)
	}
	c := onHost.contest(t, kind)
	b := &berth{t: t, mark: unique("mark"), dir: t.TempDir(), done: make(chan struct{})}
	b.cmd = exec.Command("unshare",
		append([]string{"--pid", "--fork", "--kill-child", "--mount-proc", binary}, c.args(script, flags...)...)...)
	b.cmd.Env = append(ownEnvironment(), markVariable+"="+b.mark, "E2E_DIR="+b.dir,
		"BERTH_LOG_FORMAT=json", "BERTH_LOG_LEVEL=debug", "GORACE=atexit_sleep_ms=0")
	stdout, stderr := create(t, b.path("stdout")), create(t, b.path("stderr"))
	defer stdout.Close()
	defer stderr.Close()
	b.cmd.Stdout, b.cmd.Stderr = stdout, stderr
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go b.own(started)
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.cleanUp)
	first := container{berth: b}
	until(t, "berth in its namespace", func() bool {
		for _, p := range marked(b.mark) {
			if p.parent == b.pid() && p.args[0] == binary {
				first.inside = p.pid
			}
		}
		return first.inside != 0 || b.ended()
	})
	return first
}

func (c container) send(sig syscall.Signal) {
	c.t.Helper()
	if err := syscall.Kill(c.inside, sig); err != nil {
		c.t.Fatal(err)
	}
}

// fault: pid1
func TestAsPID1BerthEndsAsTheCommandDid(t *testing.T) {
	t.Parallel()
	for script, status := range map[string]int{"exit 0": 0, "exit 42": 42, "kill -KILL $$": 137, "kill -TERM $$": 143,
		"kill -HUP $$": 129} {
		c := contain(t, script)
		c.wantStatus(status)
	}
}

// fault: pid1
func TestAsPID1BerthTakesTermAndForwardsOtherSignals(t *testing.T) {
	t.Parallel()
	c := contain(t, `
		trap 'echo usr1 >>"$E2E_DIR/got"' USR1
		trap 'echo hup >>"$E2E_DIR/got"' HUP
		echo up >>"$E2E_DIR/runs"
		while :; do sleep 0.02; done`)
	c.awaitRuns(1)
	c.awaitRunning()
	for n, sig := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGHUP} {
		c.send(sig)
		until(t, sig.String(), func() bool { return len(lines(filepath.Join(c.dir, "got"))) == n+1 })
	}
	c.send(syscall.SIGTERM)
	c.wantStatus(143)
	c.wantNothingLeft()
}

// fault: pid1
func TestAsPID1BerthEndsOnTermWhileItWaits(t *testing.T) {
	t.Parallel()
	c := containKind(t, "semaphore", "true")
	c.awaitLog("waiting: the lock does not exist")
	c.send(syscall.SIGTERM)
	c.wantStatus(143)
}

// fault: pid1
func TestAsPID1BerthReapsOrphansWhileTheCommandRuns(t *testing.T) {
	t.Parallel()
	// Each of them loses its parent and then ends.
	c := contain(t, `
		for i in $(seq 50); do (setsid sh -c 'echo end >>"$E2E_DIR/ends"' &); done
		until [ "$(wc -l <"$E2E_DIR/ends")" = 50 ]; do sleep 0.02; done
		while grep -q "^State:.Z" /proc/[0-9]*/status 2>/dev/null; do sleep 0.02; done
		echo none >>"$E2E_DIR/runs"
		exec sleep 1000`)
	c.awaitRuns(1)
	c.send(syscall.SIGTERM)
	c.wantStatus(143)
}
