package request

import (
	"slices"
	"sync/atomic"
)

// Admins are the users of the broker whose requests are heeded. Its methods may be called from several goroutines. The
// zero value has none.
type Admins struct{ users atomic.Pointer[[]string] }

// Set says who they are from now on.
func (a *Admins) Set(users []string) {
	users = slices.Clone(users)
	a.users.Store(&users)
}

// have reports whether the broker has said of a message that it comes from one of them.
func (a *Admins) have(user string) bool {
	users := a.users.Load()
	return user != "" && users != nil && slices.Contains(*users, user)
}
