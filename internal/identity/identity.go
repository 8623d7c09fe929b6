// Package identity is about whom the command runs as: users and groups as this host
// knows them, and whether berth may start a process as somebody else.
//
//	user, err := identity.LookUpUser("worker")
//	credential, err := identity.Credential(&user, nil)
//
// It looks things up and changes nothing. Its errors are the end of a sentence that
// begins with what the user wrote.
package identity

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// User is a user as this host knows it.
type User struct {
	// Account is the user's entry in the user database, nil if there is none.
	Account *Account

	uid    uint32
	gid    uint32   // 0 without an account
	groups []uint32 // supplementary groups, none without an account
}

// Account is what the user database says of a user.
type Account struct {
	Name string
	Home string
}

// LookUpUser returns the user of a name or number. A number needs no account: a
// container's users have none.
func LookUpUser(text string) (User, error) {
	number, err := parseID(text)
	if err == nil {
		u, err := user.LookupId(text)
		if err != nil {
			return User{uid: number}, nil
		}
		return identify(u)
	}
	u, err := user.Lookup(text)
	if err != nil {
		return User{}, cmp.Or(outOfRange(text), errors.New("this host has no such user in /etc/passwd; create it, or "+
			"give a number"))
	}
	return identify(u)
}

func identify(u *user.User) (User, error) {
	groups, err := u.GroupIds()
	if err != nil {
		return User{}, fmt.Errorf("cannot look up the user's groups: %v; check /etc/group", err)
	}
	var ids []uint32
	for _, text := range append([]string{u.Uid, u.Gid}, groups...) {
		id, err := parseID(text)
		if err != nil {
			return User{}, err
		}
		ids = append(ids, id)
	}
	return User{Account: &Account{Name: u.Username, Home: u.HomeDir}, uid: ids[0], gid: ids[1], groups: ids[2:]}, nil
}

// LookUpGroup returns the number of a group, of which text is the name or the number.
func LookUpGroup(text string) (uint32, error) {
	if number, err := parseID(text); err == nil {
		return number, nil
	}
	g, err := user.LookupGroup(text)
	if err != nil {
		return 0, cmp.Or(outOfRange(text),
			errors.New("this host has no such group in /etc/group; create it, or give a "+
				"number"))
	}
	return parseID(g.Gid)
}

// outOfRange is for a number that no user or group can have, nil for a name.
func outOfRange(text string) error {
	if strings.Trim(text, "-0123456789") != "" {
		return nil
	}
	return fmt.Errorf("is not a user or group number; give 0 to %d", ^uint32(0)-1)
}

// parseID reads a user or group number. The highest one means "no change" to
// the kernel (setreuid(2)) and would leave the command as root.
func parseID(text string) (uint32, error) {
	number, err := strconv.ParseUint(text, 10, 32)
	if err != nil || uint32(number) == ^uint32(0) {
		return 0, fmt.Errorf("%q is not a user or group number", text)
	}
	return uint32(number), nil
}

// Permitted returns an error if this process cannot give a child the identity.
// Without this check it would be found out once the slot is won. capable is Capable.
func Permitted(c *syscall.Credential, capable func(capability int) bool) error {
	var missing []string
	another := c != nil && int(c.Uid) != os.Geteuid()
	if another && !capable(unix.CAP_SETUID) {
		missing = append(missing, "CAP_SETUID")
	}
	if c != nil && !capable(unix.CAP_SETGID) { // setgroups(2) needs it in any case
		missing = append(missing, "CAP_SETGID")
	}
	if another && !capable(unix.CAP_KILL) { // a command that berth can start and not end
		missing = append(missing, "CAP_KILL")
	}
	switch {
	case missing != nil:
		return fmt.Errorf("needs %s, which berth does not have; start berth as root, or as the user that the command "+
			"is to run as", strings.Join(missing, " and "))
	case c == nil:
		return nil
	case !mayGroup():
		return errors.New("needs setgroups(2), which this user namespace denies (/proc/self/setgroups); start berth as " +
			"the user and group that the command is to run as")
	}
	return existsHere(c)
}

// IsRoot reports whether a command with this user, or with berth's own if it is nil, is root's.
func IsRoot(user *User) bool {
	if user == nil {
		return os.Getuid() == 0
	}
	return user.uid == 0
}

// inGroups reports whether these are this process's supplementary groups.
func inGroups(groups []uint32) bool {
	own, err := os.Getgroups()
	if err != nil {
		return false
	}
	now := make(map[uint32]bool, len(own))
	for _, group := range own {
		now[uint32(group)] = true
	}
	wanted := make(map[uint32]bool, len(groups))
	for _, group := range groups {
		wanted[group] = true
	}
	return maps.Equal(now, wanted)
}

// Credential combines user and group, which are nil if they were not given. It is nil
// if neither changes anything.
func Credential(user *User, group *uint32) (*syscall.Credential, error) {
	if user == nil && group == nil {
		return nil, nil
	}
	as := User{uid: uint32(os.Getuid()), gid: uint32(os.Getgid())}
	switch {
	case user != nil && user.Account == nil && group == nil:
		return nil, errors.New("is not in this host's user database, so its group is unknown; give --group too")
	case user != nil:
		as = *user
	}
	if group != nil {
		as.gid = *group
	}
	same := as.uid == uint32(os.Getuid()) && as.gid == uint32(os.Getgid())
	if same && (len(as.groups) == 0 || inGroups(as.groups) || !Capable(unix.CAP_SETGID) || !mayGroup()) {
		return nil, nil // a process that may not change groups keeps those it has
	}
	if len(as.groups) == 0 {
		as.groups = []uint32{as.gid}
	}
	return &syscall.Credential{Uid: as.uid, Gid: as.gid, Groups: as.groups}, nil
}

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
