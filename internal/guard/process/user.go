package process

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"berth/internal/guard/procfs"
	"berth/internal/guard/wire"
)

// The first look at which user the command runs as comes soon after its start, each
// further one after a pause so many times as long: entry points change their user
// early, and a command that runs for months is not looked at for months.
const (
	firstUserPause  = 100 * time.Millisecond
	userPauseFactor = 3
)

// userWatch is which user the command was started as. If its first process becomes
// another, the kernel takes its parent-death signal back (PR_SET_PDEATHSIG(2const)),
// which only the process itself could set again.
type userWatch struct {
	ids   string
	pause time.Duration
	next  <-chan time.Time // nil: nothing is to be looked at
}

// watchUser begins to look whether the command keeps its parent-death signal. In a
// PID namespace it needs none.
func (g *guard) watchUser() {
	if g.command.Namespace {
		return
	}
	ids := procfs.IDs(os.Getpid())
	if g.command.Credential != nil {
		ids = loginIDs(g.command.Credential)
	}
	g.userWatch = userWatch{ids: ids, pause: firstUserPause, next: time.After(firstUserPause)}
}

// lookAtUser tells once that the signal is lost.
func (g *guard) lookAtUser() {
	g.userWatch.next = nil
	if g.first == 0 {
		return
	}
	if now := procfs.IDs(g.first); now != "" && now != g.userWatch.ids {
		g.tell(wire.Event{Kind: wire.UserChanged, Pid: g.first})
		return
	}
	g.userWatch.pause *= userPauseFactor
	g.userWatch.next = time.After(g.userWatch.pause)
}

// loginIDs is what procfs.IDs returns for a process that has just become this user.
func loginIDs(c *syscall.Credential) string {
	uid, gid := strconv.FormatUint(uint64(c.Uid), 10), strconv.FormatUint(uint64(c.Gid), 10)
	return strings.Join([]string{uid, uid, uid, uid, gid, gid, gid, gid}, " ")
}
