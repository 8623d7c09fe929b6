package guard

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"

	"berth/internal/guard/tree"
)

// newCgroup returns where a guard may make a control group for its command: the
// path of a directory that does not exist, "" if this process is in no cgroup
// v2 hierarchy. The name is never used again, unlike a process number: what is
// forked into a group that has been killed before dies at once (seen on Linux
// 6.18), and guards in different PID namespaces may have the same number.
func newCgroup() string {
	own := ownCgroup()
	if own == "" {
		return ""
	}
	return filepath.Join(own, tree.CgroupPrefix+rand.Text())
}

// ownCgroup returns the directory of this process's own group: the mount point
// of the hierarchy and the path of the group below the mount's root. "" if there is
// none.
func ownCgroup() (dir string) {
	memberships, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(memberships)) {
		if path, unified := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); unified {
			return mountedCgroup(path)
		}
	}
	return ""
}

func mountedCgroup(path string) (dir string) {
	// What was seen before a line that cannot be read counts.
	_, _ = mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		if m.FSType == "cgroup2" {
			if below, err := filepath.Rel(m.Root, path); err == nil && !strings.HasPrefix(below, "..") {
				dir = filepath.Join(m.Mountpoint, below)
			}
		}
		return true, false
	})
	return dir
}
