package guard

import (
	"bufio"
	"crypto/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroup is a control group of the command's own, where berth may make one: it
// then holds the whole tree however it forks and daemonizes, and one write
// kills it (cgroup.kill, Documentation/admin-guide/cgroup-v2). nil is a group
// that could not be made: every method then does nothing.
type cgroup struct {
	dir    *os.File
	frozen bool
}

// useCgroups is switched off by tests: /proc has to lead to the tree alone, too.
var useCgroups = true

// newGroup returns where a guard may make a control group for its command: the
// path of a directory that does not exist, "" if this process is in no cgroup
// v2 hierarchy. The name is never used again, unlike a process number: what is
// forked into a group that has been killed before dies at once (seen on Linux
// 6.18), and guards in different PID namespaces may have the same number.
func newGroup() string {
	own := ownCgroup()
	if own == "" || !useCgroups {
		return ""
	}
	return filepath.Join(own, "berth-"+rand.Text())
}

// ownCgroup returns the directory of this process's own group: the mount point
// of the hierarchy and the path of the group below the mount's root.
func ownCgroup() string {
	path, found := "", false
	eachLine("/proc/self/cgroup", func(line string) {
		if rest, ok := strings.CutPrefix(line, "0::"); ok {
			path, found = rest, true
		}
	})
	if !found {
		return ""
	}
	var dir string
	eachLine("/proc/self/mountinfo", func(line string) {
		// "ID PARENT DEV ROOT MOUNTPOINT OPTIONS... - TYPE SOURCE OPTIONS"
		head, tail, _ := strings.Cut(line, " - ")
		fields := strings.Fields(head)
		if len(fields) < 5 || !strings.HasPrefix(tail, "cgroup2 ") {
			return
		}
		below, err := filepath.Rel(fields[3], path)
		if err != nil || strings.HasPrefix(below, "..") {
			return
		}
		dir = filepath.Join(fields[4], below)
	})
	return dir
}

func eachLine(file string, each func(line string)) {
	f, err := os.Open(file)
	if err != nil {
		return
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		each(lines.Text())
	}
}

// makeCgroup makes the group, or returns nil where berth owns none: no cgroup v2
// (path is ""), not writable, too old to be killed.
func makeCgroup(path string) *cgroup {
	if path == "" {
		return nil
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil
	}
	dir, err := os.Open(path)
	if err != nil {
		os.Remove(path)
		return nil
	}
	if _, err := os.Stat(filepath.Join(path, "cgroup.kill")); err != nil { // Linux 5.14
		dir.Close()
		os.Remove(path)
		return nil
	}
	return &cgroup{dir: dir}
}

// fd returns the descriptor to fork into the group with (CLONE_INTO_CGROUP).
func (c *cgroup) fd() int { return int(c.dir.Fd()) }

// kill kills everything in the group in one step.
func (c *cgroup) kill() {
	if c != nil {
		killCgroup(c.dir.Name())
	}
}

// freeze stops everything in the group, or has it go on. It takes effect within
// microseconds unless a process is in an uninterruptible wait, which cannot do
// anything else meanwhile (cgroup.freeze, Linux 5.2).
func (c *cgroup) freeze(on bool) {
	if c == nil {
		return
	}
	value := "0"
	if on {
		value = "1"
	}
	c.frozen = writeControl(c.dir.Name(), "cgroup.freeze", value) && on
}

// isFrozen reports whether the group is frozen.
func (c *cgroup) isFrozen() bool { return c != nil && c.frozen }

// has reports whether freeze reaches the process: it is in the group, or in one
// that the command has made in it. A command that may do so can leave the group.
func (c *cgroup) has(pid int) (inside bool) {
	if !c.isFrozen() {
		return false
	}
	name := "/" + filepath.Base(c.dir.Name())
	eachLine(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"), func(line string) {
		path, unified := strings.CutPrefix(line, "0::")
		inside = inside || unified && strings.Contains(path+"/", name+"/")
	})
	return inside
}

// remove removes the group, which has to be empty by now.
func (c *cgroup) remove() {
	if c != nil {
		c.dir.Close()
		removeCgroup(c.dir.Name())
	}
}

// killCgroup does nothing for a group that does not exist.
func killCgroup(path string) {
	writeControl(path, "cgroup.kill", "1")
}

// writeControl reports whether the group took the value.
func writeControl(group, file, value string) bool {
	f, err := os.OpenFile(filepath.Join(group, file), os.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	_, err = f.WriteString(value)
	return err == nil
}

// removeCgroup removes an empty group, also the groups that the command made in
// it. What cannot be removed is left to who owns the hierarchy.
func removeCgroup(path string) {
	entries, _ := os.ReadDir(path)
	for _, e := range entries {
		if e.IsDir() {
			removeCgroup(filepath.Join(path, e.Name()))
		}
	}
	_ = unix.Rmdir(path)
}
