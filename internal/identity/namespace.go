package identity

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// existsHere returns an error if this process's user namespace has no number for the user or
// one of the groups: nobody can be given these here (user_namespaces(7)).
func existsHere(c *syscall.Credential) error {
	users, groups := readMap("/proc/self/uid_map"), readMap("/proc/self/gid_map")
	if !users.has(c.Uid) {
		return fmt.Errorf("needs user %d, of which there is none in this user namespace (/proc/self/uid_map); map it, or "+
			"give another", c.Uid)
	}
	for _, group := range append([]uint32{c.Gid}, c.Groups...) {
		if !groups.has(group) {
			return fmt.Errorf("needs group %d, of which there is none in this user namespace (/proc/self/gid_map); map it, "+
				"or give another", group)
		}
	}
	return nil
}

// mapping is what the kernel says that there is in a user namespace: where ranges of numbers
// begin, what they are outside, and how long they are.
type mapping string

// readMap returns an empty mapping if it cannot be read.
func readMap(path string) mapping {
	text, _ := os.ReadFile(path)
	return mapping(text)
}

// has reports whether there is the number, or might be.
func (m mapping) has(id uint32) bool {
	for line := range strings.Lines(string(m)) {
		var first, outside, length uint64
		_, err := fmt.Sscan(line, &first, &outside, &length)
		if n := uint64(id); err != nil || first <= n && n < first+length {
			return true
		}
	}
	return m == ""
}

// mayGroup reports whether setgroups(2) is allowed in this user namespace at all.
func mayGroup() bool {
	text, _ := os.ReadFile("/proc/self/setgroups")
	return string(text) != "deny\n"
}
