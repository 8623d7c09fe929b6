package config

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

// identity is a user as the host knows it.
type identity struct {
	uid    uint32
	gid    uint32
	known  bool     // whether the user database has the user, and so gid, groups and account
	groups []uint32 // supplementary groups

	account *Account
}

func setUser(s *settings, texts []string) error {
	found, err := lookUpUser(texts[0])
	s.user, s.Account = &found, found.account
	return err
}

func setGroup(s *settings, texts []string) error {
	gid, err := lookUpGroup(texts[0])
	s.group = &gid
	return err
}

func lookUpUser(text string) (identity, error) {
	number, err := parseID(text)
	if err == nil {
		u, err := user.LookupId(text)
		if err != nil {
			return identity{uid: number}, nil // a container's users need no entry
		}
		return identify(u)
	}
	u, err := user.Lookup(text)
	if err != nil {
		return identity{}, cmp.Or(outOfRange(text), errors.New("this host has no such user in /etc/passwd; create it, or give a number"))
	}
	return identify(u)
}

func identify(u *user.User) (identity, error) {
	uid, err := parseID(u.Uid)
	if err != nil {
		return identity{}, err
	}
	gid, err := parseID(u.Gid)
	if err != nil {
		return identity{}, err
	}
	texts, err := u.GroupIds()
	if err != nil {
		return identity{}, fmt.Errorf("cannot look up the user's groups: %v; check /etc/group", err)
	}
	found := identity{uid: uid, gid: gid, known: true, account: &Account{Name: u.Username, Home: u.HomeDir}}
	for _, text := range texts {
		group, err := parseID(text)
		if err != nil {
			return identity{}, err
		}
		found.groups = append(found.groups, group)
	}
	return found, nil
}

func lookUpGroup(text string) (uint32, error) {
	if number, err := parseID(text); err == nil {
		return number, nil
	}
	g, err := user.LookupGroup(text)
	if err != nil {
		return 0, cmp.Or(outOfRange(text), errors.New("this host has no such group in /etc/group; create it, or give a number"))
	}
	return parseID(g.Gid)
}

// outOfRange is for a number that no user or group can have, nil for a name.
func outOfRange(text string) error {
	if strings.Trim(text, "-0123456789") != "" {
		return nil
	}
	return fmt.Errorf("is no number of a user or group; give 0 to %d", ^uint32(0)-1)
}

// parseID reads a user or group number. The highest one means "no change" to
// the kernel (setreuid(2)) and would leave the command as root.
func parseID(text string) (uint32, error) {
	number, err := strconv.ParseUint(text, 10, 32)
	if err != nil || uint32(number) == ^uint32(0) {
		return 0, fmt.Errorf("%q is no user or group number", text)
	}
	return uint32(number), nil
}

// setCredential decides whom the command runs as. Its errors are about what was
// written for --user, or for --group alone.
func (s *settings) setCredential(values layer) error {
	var err error
	if s.Credential, err = s.credential(); err == nil {
		err = permitted(s.Credential, Capable)
	}
	if err == nil {
		return nil
	}
	from, found := values["user"]
	if !found {
		from = values["group"]
	}
	return from.wrong(err)
}

// permitted returns an error if this process cannot give a child the identity.
// Without this check it would be found out once the slot is won.
func permitted(c *syscall.Credential, capable func(capability int) bool) error {
	var missing []string
	if c != nil && int(c.Uid) != os.Geteuid() && !capable(unix.CAP_SETUID) {
		missing = append(missing, "CAP_SETUID")
	}
	if c != nil && !capable(unix.CAP_SETGID) { // setgroups(2) needs it in any case
		missing = append(missing, "CAP_SETGID")
	}
	if missing == nil {
		return nil
	}
	return fmt.Errorf("needs %s, which berth does not have; start berth as root, or as the user that the command is to run as", strings.Join(missing, " and "))
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

// credential combines user and group; nil if neither changes anything.
func (s *settings) credential() (*syscall.Credential, error) {
	if s.user == nil && s.group == nil {
		return nil, nil
	}
	who := identity{uid: uint32(os.Getuid()), gid: uint32(os.Getgid())}
	switch {
	case s.user != nil && !s.user.known && s.group == nil:
		return nil, errors.New("is not in this host's user database, so its group is unknown; give --group too")
	case s.user != nil:
		who = *s.user
	}
	if s.group != nil {
		who.gid = *s.group
	}
	same := who.uid == uint32(os.Getuid()) && who.gid == uint32(os.Getgid())
	if same && (len(who.groups) == 0 || inGroups(who.groups) || !Capable(unix.CAP_SETGID)) {
		return nil, nil // who may not change groups runs as itself, with those it has
	}
	if len(who.groups) == 0 {
		who.groups = []uint32{who.gid}
	}
	return &syscall.Credential{Uid: who.uid, Gid: who.gid, Groups: who.groups}, nil
}
