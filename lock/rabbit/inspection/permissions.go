package inspection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"berth/lock"
	"berth/lock/rabbit/transport"
)

// writePattern permits to publish to queues: the default exchange is called amq.default where permissions are granted.
const writePattern = `^amq\.default$`

// need is one permission that somebody needs on one queue.
type need struct {
	permission string // "configure" or "read"
	queue      string
	without    string // what does not work without it; empty: contending for the lock

	may func(context.Context, string) error // asks the broker for it
}

// needs are the permissions on queues that berth uses for the lock, for slot 1.
func (i *inspection) needs() []need {
	const admin = "this user cannot change the number of slots"
	waking := "waiters are not woken and look from time to time"
	n, c := i.names, i.channel
	if n.HandsOut() {
		waking = "" // without tokens there is no slot
	}
	all := []need{
		{"configure", n.Holds(1), "", c.MayConfigure},
		{"read", n.Holds(1), "", c.MayRead},
		{"configure", n.Ledger(1), "", c.MayConfigure},
		{"read", n.Ledger(1), "", c.MayRead},
		{"configure", n.Waiters(), waking, c.MayConfigure},
		{"read", n.Waiters(), waking, c.MayRead},
	}
	switch {
	case n.Replicated(): // it has no B
		all = all[2:]
	case i.plain:
		all = append(all[:1], need{"configure", n.Ledger(1), "", c.Find}, // they must not be there
			need{"configure", n.Other().Ledger(1), "", c.Find})
	}
	if i.names.ID.Kind.Administered() {
		all = append(all,
			need{"configure", n.Exists(1), "", c.Find}, // in some releases any permission will do
			need{"configure", n.Exists(1), admin, c.MayConfigure},
			need{"configure", n.Administration(), admin, c.MayConfigure})
	} else if n.Replicated() { // its users make it
		all = append(all,
			need{"configure", n.Exists(1), "", c.MayConfigure},
			need{"configure", n.Administration(), "", c.MayConfigure})
	}
	for _, sign := range n.RivalSigns() { // who makes the lock looks for them
		without := admin
		if !i.names.ID.Kind.Administered() {
			without = ""
		}
		all = append(all, need{"configure", sign.Queue, without, c.Find})
	}
	return all
}

// askPermissions notes which permissions are missing.
func (i *inspection) askPermissions(ctx context.Context) error {
	var missing []need
	for _, n := range i.needs() {
		err := n.may(ctx, n.queue)
		switch {
		case errors.Is(err, lock.ErrDenied):
			missing = append(missing, n)
		case err == nil, errors.Is(err, transport.ErrNoQueue), errors.Is(err, transport.ErrTaken),
			errors.Is(err, transport.ErrDiffers), errors.Is(err, transport.ErrUnfit):
			// Turned down for another reason: permitted. What is wrong with a queue that is there is found out
			// elsewhere.
		case errors.Is(err, lock.ErrUnknown) && ctx.Err() == nil:
			i.problem(lock.ErrUnknown,
				"cannot tell whether user %q has %s permission: %s; try again when all nodes are up",
				i.conn.User(), n.permission, err.Error())
		default:
			return err
		}
	}
	i.missing(missing)
	return nil
}

// missing reports what is not permitted: a line for each permission and for what does not work without it.
func (i *inspection) missing(all []need) {
	for len(all) > 0 {
		first := all[0]
		var queues []string
		all = slices.DeleteFunc(all, func(n need) bool {
			same := n.permission == first.permission && n.without == first.without
			if same {
				queues = append(queues, strconv.Quote(n.queue))
			}
			return same
		})
		text := fmt.Sprintf("user %q has no %s permission on %s", i.conn.User(), first.permission,
			strings.Join(queues, " and "))
		if first.without != "" {
			i.advise("%s: %s", text, first.without)
			continue
		}
		i.problem(lock.ErrDenied, "%s; its %s pattern has to match that, as %s does", text, first.permission,
			i.pattern(false))
	}
}

// pattern matches the queues of all locks of that name, of either type: some are looked for before others are made. With
// administration it matches that which administrators hold while they work, too: so do those who make a mutex.
func (i *inspection) pattern(administration bool) string {
	const tokens, others = `-([KQ]|Q-[MP])`, `-(W|[0-9]+-[ABT]|[ABT]-[0-9]+)`
	queues := "(" + tokens + "|(" + tokens + ")?" + others + ")"
	if administration || i.names.ID.Kind == lock.Mutex {
		queues = "(" + tokens + ")?(" + others + ")?"
	}
	return "^" + regexp.QuoteMeta(i.names.ID.Name) + queues + "$"
}

// permit says what to permit to whom, as far as is known by which name the broker knows berth.
func (i *inspection) permit() {
	i.Runner = i.grant(i.pattern(false))
	if i.names.ID.Kind.Administered() {
		i.Administrator = i.grant(i.pattern(true))
	}
}

// grant is the command that permits what the pattern says.
func (i *inspection) grant(pattern string) string {
	return shellescape.QuoteCommand([]string{"rabbitmqctl", "set_permissions", "-p", i.vhost,
		cmp.Or(i.User, i.conn.User(), "USER"), pattern, writePattern, pattern})
}
