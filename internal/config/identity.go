package config

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// identity is a user as the host knows it.
type identity struct {
	uid    uint32
	gid    uint32
	known  bool     // whether the user database has the user, and so gid and groups
	groups []uint32 // supplementary groups
}

func setUser(s *settings, texts []string) error {
	found, err := lookUpUser(texts[0])
	s.user = &found
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
		return identity{}, errors.New("this host has no such user; create it, or give a number")
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
	found := identity{uid: uid, gid: gid, known: true}
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
		return 0, errors.New("this host has no such group; create it, or give a number")
	}
	return parseID(g.Gid)
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

// credential combines user and group; nil if neither changes anything.
func (s *settings) credential() (*syscall.Credential, error) {
	if s.user == nil && s.group == nil {
		return nil, nil
	}
	who := identity{uid: uint32(os.Getuid()), gid: uint32(os.Getgid())}
	switch {
	case s.user != nil && !s.user.known && s.group == nil:
		return nil, fmt.Errorf("user %d is not in this host's user database, so its group is unknown; give --group too", s.user.uid)
	case s.user != nil:
		who = *s.user
	}
	if s.group != nil {
		who.gid = *s.group
	}
	if who.uid == uint32(os.Getuid()) && who.gid == uint32(os.Getgid()) {
		return nil, nil
	}
	if len(who.groups) == 0 {
		who.groups = []uint32{who.gid}
	}
	return &syscall.Credential{Uid: who.uid, Gid: who.gid, Groups: who.groups}, nil
}
