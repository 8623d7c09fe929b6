package e2e

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLogThatNobodyReadsAnyMoreDoesNotEndTheCommand(t *testing.T) {
	t.Parallel()
	c := onHost.contest(t, "mutex")
	dir := t.TempDir()
	pipe := dir + "/log"
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	// Each forwarded signal is logged before it is handed on.
	script := `trap "echo up >>$E2E_DIR/runs" WINCH; echo up >>"$E2E_DIR/runs"; while :; do sleep 0.05; done`
	b := setup{dir: dir, via: []string{"sh", "-c", `exec "$0" "$@" 2>"$E2E_DIR/log"`}}.start(t,
		c.args(script, quickStop)...)
	b.awaitRuns(1)
	reader.Close()
	for runs := 2; runs < 5; runs++ {
		b.signal(syscall.SIGWINCH)
		b.awaitRuns(runs)
	}
	b.signal(syscall.SIGPIPE)
	b.signal(syscall.SIGTERM)
	b.wantStatus(143)
	b.wantNothingLeft()
}
