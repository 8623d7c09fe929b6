package request

import (
	"slices"
	"sync/atomic"
)

// Admins are the users of the broker whose requests are accepted. Its methods may be called from several goroutines. The
// zero value names none.
type Admins struct{ users atomic.Pointer[[]string] }

// Set says who they are from now on: with none named, the user that a contender logs in as itself.
func (a *Admins) Set(users []string) {
	users = slices.Clone(users)
	a.users.Store(&users)
}

// have reports whether the broker has said of a message that it comes from one of them. own says who is the contender's
// own user.
func (a *Admins) have(user string, own func(string) bool) bool {
	if users := a.users.Load(); users != nil && len(*users) > 0 {
		return user != "" && slices.Contains(*users, user)
	}
	return user != "" && own(user)
}
