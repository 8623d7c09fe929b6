package rabbit

import "regexp"

// right is what a user may do to a queue or an exchange.
type right int

const (
	mayConfigure right = iota
	mayWrite
	mayRead
)

var rightNames = map[right]string{mayConfigure: "configure", mayWrite: "write", mayRead: "read"}

// permissions are those of a user, by right. nil matches everything.
type permissions [3]*regexp.Regexp

func (c *Cluster) permitted(user string, r right, name string) bool {
	rights := c.rights[user]
	return rights != nil && (rights[r] == nil || rights[r].MatchString(name))
}

// permit refuses what the user may not do.
func (c *Cluster) permit(user string, r right, name, where string) {
	if c.permitted(user, r, name) {
		return
	}
	kind := ""
	if c.config.Version >= V4_0 {
		kind = rightNames[r] + " "
	}
	refuse(accessRefused, "%saccess to %s refused for user '%s'", kind, where, user)
}

// permitAny refuses a look at a queue on which the user has no right at all.
func (c *Cluster) permitAny(user, name string) {
	for _, r := range []right{mayRead, mayWrite} {
		if c.permitted(user, r, name) {
			return
		}
	}
	c.permit(user, mayConfigure, name, inVhost(name))
}
