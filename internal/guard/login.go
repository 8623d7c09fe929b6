package guard

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
)

// Login is who the command runs as.
type Login struct {
	UID    uint32
	GID    uint32
	Groups []uint32 // supplementary groups; empty: none
}

// String returns the form that travels in the guard's arguments. nil is "-":
// the command runs as who started berth.
func (l *Login) String() string {
	if l == nil {
		return "-"
	}
	ids := append([]uint32{l.UID, l.GID}, l.Groups...)
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.FormatUint(uint64(id), 10)
	}
	return strings.Join(texts, ",")
}

func parseLogin(text string) (*Login, error) {
	if text == "-" {
		return nil, nil
	}
	var ids []uint32
	for _, part := range strings.Split(text, ",") {
		id, err := strconv.ParseUint(part, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%q is no login", text)
		}
		ids = append(ids, uint32(id))
	}
	if len(ids) < 2 {
		return nil, fmt.Errorf("%q is no login", text)
	}
	return &Login{UID: ids[0], GID: ids[1], Groups: ids[2:]}, nil
}

func (l *Login) credential() *syscall.Credential {
	return &syscall.Credential{Uid: l.UID, Gid: l.GID, Groups: l.Groups}
}
