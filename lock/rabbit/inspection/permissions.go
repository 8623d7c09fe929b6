package inspection

import (
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

// writePattern permits to publish to queues: the default exchange is called
// amq.default where permissions are granted.
const writePattern = `^amq\.default$`

// need is one permission that somebody needs on one queue.
type need struct {
	permission string // "configure", "read", or "any"
	queue      string
	without    string // what does not work without it; empty: contending for the lock
}

// needs are the permissions on queues that berth uses for the lock, for slot 1.
func (i *inspection) needs() []need {
	const (
		waking = "waiters are not woken and look from time to time"
		admin  = "this user cannot change the number of slots"
	)
	n := i.names
	all := []need{
		{"configure", n.Holds(1), ""},
		{"read", n.Holds(1), ""},
		{"configure", n.Ledger(1), ""},
		{"read", n.Ledger(1), ""},
		{"configure", n.Line(), waking},
		{"read", n.Line(), waking},
	}
	if i.id.Kind.Administered() {
		all = append(all,
			need{"any", n.Exists(1), ""},
			need{"configure", n.Exists(1), admin},
			need{"configure", n.Administration(), admin})
	}
	return all
}

// askPermissions notes which permissions are missing.
func (i *inspection) askPermissions(ctx context.Context) error {
	var missing []need
	for _, n := range i.needs() {
		err := i.ask(ctx, n)
		switch {
		case errors.Is(err, lock.ErrDenied):
			missing = append(missing, n)
		case err == nil, errors.Is(err, transport.ErrNoQueue), errors.Is(err, transport.ErrTaken),
			errors.Is(err, transport.ErrDiffers), errors.Is(err, transport.ErrUnfit):
			// Turned down for another reason: permitted. What is wrong with a queue
			// that is there is found out elsewhere.
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

// ask asks the broker whether it permits that.
func (i *inspection) ask(ctx context.Context, n need) error {
	switch n.permission {
	case "configure":
		return i.channel.MayConfigure(ctx, n.queue)
	case "read":
		return i.channel.MayRead(ctx, n.queue)
	}
	return i.channel.Find(ctx, n.queue)
}

// missing reports what is not permitted: a line for each permission and for
// what does not work without it.
func (i *inspection) missing(all []need) {
	i.denied = len(all) > 0
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
		i.reportMissing(first, strings.Join(queues, " and "))
	}
}

func (i *inspection) reportMissing(n need, queues string) {
	kind := n.permission
	if kind == "any" {
		kind = "configure"
	}
	text := fmt.Sprintf("user %q has no %s permission on %s", i.conn.User(), kind, queues)
	if n.without != "" {
		i.advise("%s: %s", text, n.without)
		return
	}
	i.problem(lock.ErrDenied, "%s; its %s pattern has to match that, as %s does", text, kind, i.pattern())
}

// pattern matches the queues of the lock and no others.
func (i *inspection) pattern() string {
	return "^" + regexp.QuoteMeta(i.id.Name) + `(-([0-9]+-[ABT]|[ABT]-[0-9]+|W))?$`
}

// grant is the command that permits all that the lock needs.
func (i *inspection) grant() string {
	user := i.conn.User()
	if user == "" {
		user = "USER"
	}
	return fmt.Sprintf("rabbitmqctl set_permissions -p %s %s %s %s %s", shellescape.Quote(i.vhost),
		shellescape.Quote(user),
		shellescape.Quote(i.pattern()), shellescape.Quote(writePattern), shellescape.Quote(i.pattern()))
}
