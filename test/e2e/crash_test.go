package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// aUser is nobody else's: root has no limit on its processes.
const aUser = 64321

// fault: process-limit
//
// A command may fill the limit on processes, which threads count for as well, and
// Go's runtime ends a process that cannot make one.
func TestBerthEndsItsCommandWithoutAThreadToBeHad(t *testing.T) {
	t.Parallel()
	user := strconv.Itoa(aUser)
	for range 5 {
		dir := t.TempDir()
		for _, opened := range []string{filepath.Dir(dir), filepath.Dir(binary)} {
			if err := os.Chmod(opened, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(dir, aUser, aUser); err != nil {
			t.Fatal(err)
		}
		b := setup{dir: dir, via: []string{"setpriv", "--reuid=" + user, "--regid=" + user, "--clear-groups",
			"--"}}.start(t,
			"run", "--broker", "local://"+dir, "--mutex", "m", "--stop=TERM 100ms, KILL", "--", "sh", "-c", leftBehind)
		b.awaitRuns(1)
		for _, pid := range []int{b.pid(), b.guardPID()} {
			limit := exec.Command("prlimit", "--nproc=0", "--pid="+strconv.Itoa(pid))
			limit.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: aUser, Gid: aUser}}
			if out, err := limit.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		for _, sig := range []syscall.Signal{syscall.SIGWINCH, syscall.SIGURG, syscall.SIGTERM} {
			b.signal(sig)
		}
		b.wantStatus(137)
		b.wantNothingLeft()
	}
}

// leftBehind is a command of three processes, of which its first ignores TERM.
const leftBehind = `trap "" TERM; sleep 1000 & setsid sleep 1000 & echo >>"$E2E_DIR/runs"; while :; do sleep 1000; done`

// fault: berth-crashes
//
// What Go's runtime ends a process for, it ends it with 2. What is sent by sigqueue(3) it takes for a fault of the
// process's own.
func TestCommandDiesWithABerthThatCrashes(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		c := p.contest(t, "mutex")
		b := c.run(tree)
		b.awaitRuns(1)
		queueSignal(t, b.pid(), unix.SIGSEGV)
		b.wantStatus(2)
		b.wantNothingLeft()
		c.wantFreeSoon()
	}, onHost)
}

// queueSignal sends a signal as sigqueue(3) does.
func queueSignal(t testing.TB, pid int, sig syscall.Signal) {
	t.Helper()
	const queued = -1                                               // SI_QUEUE
	info := [32]int32{int32(sig), 0, queued, 0, int32(os.Getpid())} // siginfo_t, of 128 bytes
	if _, _, errno := unix.Syscall(unix.SYS_RT_SIGQUEUEINFO, uintptr(pid), uintptr(sig),
		uintptr(unsafe.Pointer(&info))); errno != 0 {
		t.Fatal(errno)
	}
}
