package guard

import (
	"os"
	"strconv"
	"strings"
	"time"

	"berth/supervisor"
)

// The first look at who the command runs as comes soon after its start, each
// further one after a pause so many times as long: entry points change their user
// early, and one that runs for months is not looked at for months.
const (
	firstGlance  = 100 * time.Millisecond
	rarerGlances = 3
)

// bond is who the command was started as. If its first process becomes somebody
// else, the kernel takes its parent-death signal back (PR_SET_PDEATHSIG(2const)),
// which only the process itself could set again.
type bond struct {
	ids   string
	pause time.Duration
	next  <-chan time.Time // nil: nothing is to be looked at
}

// watchBond begins to look whether the command keeps its parent-death signal. In a
// PID namespace it needs none.
func (h *helper) watchBond() {
	if h.inner {
		return
	}
	ids := idsOf(os.Getpid())
	if h.login != nil {
		ids = h.login.ids()
	}
	h.bond = bond{ids: ids, pause: firstGlance, next: time.After(firstGlance)}
}

// lookAtBond tells once that the signal is lost.
func (h *helper) lookAtBond() {
	h.bond.next = nil
	if h.first == 0 {
		return
	}
	if now := idsOf(h.first); now != "" && now != h.bond.ids {
		h.tell(supervisor.GuardEvent{Kind: supervisor.Loosened, Pid: h.first})
		return
	}
	h.bond.pause *= rarerGlances
	h.bond.next = time.After(h.bond.pause)
}

// idsOf returns the user and group ids of a process, real, effective, saved and of
// the file system each, "" if they cannot be read.
func idsOf(pid int) string {
	var ids []string
	eachLine("/proc/"+strconv.Itoa(pid)+"/status", func(line string) {
		name, values, _ := strings.Cut(line, ":")
		if name == "Uid" || name == "Gid" {
			ids = append(ids, strings.Fields(values)...)
		}
	})
	return strings.Join(ids, " ")
}

// ids is what idsOf returns for who has just logged in.
func (l *Login) ids() string {
	uid, gid := strconv.FormatUint(uint64(l.UID), 10), strconv.FormatUint(uint64(l.GID), 10)
	return strings.Join([]string{uid, uid, uid, uid, gid, gid, gid, gid}, " ")
}
