package identity

import "golang.org/x/sys/unix"

// Capable reports whether this process has a capability, such as
// unix.CAP_SETUID. Where that cannot be found out it says yes: what needs the
// capability will say so itself.
func Capable(capability int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData // 32 capabilities each
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return true
	}
	return sets[capability/32].Effective&(1<<(capability%32)) != 0
}
