package e2e

import (
	"syscall"
	"testing"
)

// hiding becomes a berth in whose /proc the processes of other users cannot be
// seen (mount option hidepid, proc(5), which spares group 0), and which can make
// no control group.
var hiding = []string{"unshare", "--mount", "sh", "-c", `umount -a -t cgroup2; mount -t proc -o hidepid=2 proc /proc &&
	exec setpriv --regid=65534 --clear-groups --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace -- "$0" "$@"`}

// behind is a command that leaves a process of another user behind, which
// ignores TERM and is in a session of its own.
const behind = `(trap "" TERM; exec setsid setpriv --reuid=65534 --clear-groups sleep 1000) &
	echo "$BERTH_SLOT" >>"$E2E_DIR/runs"; wait`

// fault: hidden-process
func TestProcessesThatProcHidesAreDeadBeforeTheSlotIsFree(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end    func(*berth)
		status int
	}{
		"stopped":      {func(b *berth) { b.signal(syscall.SIGTERM) }, 143},
		"guard killed": {func(b *berth) { kill(b.t, b.guardPID(), syscall.SIGKILL) }, 137},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lock := onHost.contest(t, "mutex")
			b := setup{via: hiding}.start(t, lock.args(behind, quickStop)...)
			b.awaitRuns(1)
			until(t, "both processes of the command", func() bool { return len(b.command()) == 2 })
			c.end(b)
			b.wantStatus(c.status)
			if left := b.command(); len(left) > 0 {
				t.Errorf("berth has ended and %v live", left)
			}
			lock.wantFree()
		})
	}
}
