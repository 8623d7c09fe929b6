package tree

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/guard/procfs"
)

// CgroupPrefix is what the names of control groups begin with. The text of crypto/rand follows.
const CgroupPrefix = "berth-"

// isCgroupName reports whether this is the name of a control group of berth's, and not somebody's berth-something.
func isCgroupName(name string) bool {
	text, ok := strings.CutPrefix(name, CgroupPrefix)
	return ok && len(text) >= 26 && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// The mode of a control group. While it is being made no other user can open it, and so lock it first, and no other
// guard takes it for left behind.
const (
	beingMade = 0o700
	made      = 0o755
)

// Cgroup is a control group of the command's own, where berth may make one: it
// then holds the whole tree however it forks and daemonizes, and one write
// kills it (cgroup.kill, Documentation/admin-guide/cgroup-v2). nil is a group
// that could not be made: every method then does nothing.
type Cgroup struct {
	path   string
	dir    *os.File // to fork into, and locked for as long as its maker lives; nil: nothing is to be
	frozen bool
}

// LeftCgroup returns the control group that a guard may have made with this directory
// before it died, "" for none.
func LeftCgroup(path string) *Cgroup {
	if path == "" {
		return nil
	}
	return &Cgroup{path: path}
}

// MakeCgroup makes the control group with this directory, or returns nil where berth
// owns none: no cgroup v2 (path is ""), not writable, too old to be killed.
func MakeCgroup(path string) *Cgroup {
	if path == "" {
		return nil
	}
	if err := os.Mkdir(path, beingMade); err != nil {
		return nil
	}
	dir, err := os.Open(path)
	if err != nil {
		os.Remove(path)
		return nil
	}
	err = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		_ = dir.Chmod(made)                     // or nobody removes it if it is left behind
		_, err = os.Stat(path + "/cgroup.kill") // Linux 5.14
	}
	if err != nil {
		dir.Close()
		os.Remove(path)
		return nil
	}
	return &Cgroup{path: path, dir: dir}
}

// RemoveLeft removes the control groups beside path that guards have left behind which were killed together with their
// supervisor, and kills what is in them, for which it waits for a moment. A guard's process keeps its group locked: the
// kernel unlocks it at its end, however that comes. It locks it before its mode says that it is made. Names are never
// used again, so what is removed here is not made again.
func RemoveLeft(path string) {
	if path == "" {
		return
	}
	end := time.Now().Add(leftTime)
	for removeAllLeft(path) && time.Now().Before(end) {
		time.Sleep(firstPause)
	}
}

// leftTime bounds how long the end of what is left is waited for. KILL takes effect within a millisecond, unless a
// process is in an uninterruptible wait.
const leftTime = 100 * time.Millisecond

// removeAllLeft reports whether it has killed something that may not have ended yet.
func removeAllLeft(path string) (killed bool) {
	slash := strings.LastIndexByte(path, '/') + 1
	parent, own := path[:slash], path[slash:]
	all, _ := os.ReadDir(parent)
	for _, group := range all {
		if name := group.Name(); name != own && group.IsDir() && isCgroupName(name) {
			killed = removeLeft(parent+name) || killed
		}
	}
	return killed
}

// removeLeft kills what is in one group, or removes it, unless somebody is making it, or has locked it. Another berth
// that does the same does not count: its locks are shared ones.
func removeLeft(group string) (killed bool) {
	dir, err := os.Open(group)
	if err != nil {
		return false
	}
	defer dir.Close()
	if info, err := dir.Stat(); err != nil || info.Mode().Perm() != made {
		return false
	}
	if unix.Flock(int(dir.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil {
		return false
	}
	if isPopulated(group) && LeftCgroup(group).kill() {
		return true
	}
	removeGroup(group)
	return false
}

func isPopulated(group string) bool {
	events, err := os.ReadFile(group + "/cgroup.events")
	return err == nil && strings.Contains(string(events), "populated 1\n")
}

// FD returns the descriptor to fork into the group with (CLONE_INTO_CGROUP).
func (c *Cgroup) FD() int { return int(c.dir.Fd()) }

// kill kills everything in the group in one step, and reports whether it may.
func (c *Cgroup) kill() bool { return c != nil && c.write("cgroup.kill", "1") }

// freeze stops everything in the group, or has it go on. It takes effect within
// microseconds unless a process is in an uninterruptible wait, which cannot do
// anything else meanwhile (cgroup.freeze, Linux 5.2).
func (c *Cgroup) freeze(on bool) {
	if c == nil {
		return
	}
	value := "0"
	if on {
		value = "1"
	}
	c.frozen = c.write("cgroup.freeze", value) && on
}

// isFrozen reports whether the group is frozen.
func (c *Cgroup) isFrozen() bool { return c != nil && c.frozen }

// stops reports whether freeze reaches the process: it is in the group, or in one
// that the command has made in it. A command that may do so can leave the group.
func (c *Cgroup) stops(pid int) (inside bool) {
	if !c.isFrozen() {
		return false
	}
	name := c.path[strings.LastIndexByte(c.path, '/'):] + "/"
	_ = procfs.ReadFile("/proc/"+strconv.Itoa(pid)+"/cgroup", func(text []byte) { // a process that is gone is in none
		_, path, _ := bytes.Cut(append([]byte("\n"), text...), []byte("\n0::"))
		path, _, _ = bytes.Cut(path, []byte("\n"))
		inside = bytes.Contains(append(path, '/'), []byte(name))
	})
	return inside
}

// remove removes the group, which has to be empty by now.
func (c *Cgroup) remove() {
	if c != nil {
		c.dir.Close()
		removeGroup(c.path)
	}
}

// removeGroup removes also the groups that the command made in it. What cannot be
// removed is left to the owner of the hierarchy.
func removeGroup(path string) {
	entries, _ := os.ReadDir(path)
	for _, e := range entries {
		if e.IsDir() {
			removeGroup(path + "/" + e.Name())
		}
	}
	_ = unix.Rmdir(path)
}

// write reports whether the group took the value.
func (c *Cgroup) write(file, value string) bool {
	f, err := os.OpenFile(c.path+"/"+file, os.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	_, err = f.WriteString(value)
	return err == nil
}
