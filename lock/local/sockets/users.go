package sockets

import (
	"os/user"
	"strconv"
)

// lookUp returns the numbers of users who are given by name or number, and the names that nobody has.
func lookUp(users []string) (uids map[int]bool, unknown []string) {
	uids = make(map[int]bool, len(users))
	for _, name := range users {
		number := name
		if u, err := user.Lookup(name); err == nil {
			number = u.Uid
		}
		if uid, err := strconv.Atoi(number); err == nil && uid >= 0 {
			uids[uid] = true
		} else {
			unknown = append(unknown, name)
		}
	}
	return uids, unknown
}
