package rabbit

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
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
		{"configure", n.holds(1), ""},
		{"read", n.holds(1), ""},
		{"configure", n.ledger(1), ""},
		{"read", n.ledger(1), ""},
		{"configure", n.batons(), waking},
		{"read", n.batons(), waking},
	}
	if i.id.Kind.Administered() {
		all = append(all,
			need{"any", n.exists(1), ""},
			need{"configure", n.exists(1), admin},
			need{"configure", n.administration(), admin})
	}
	return all
}

// askPermissions notes which permissions are missing.
func (i *inspection) askPermissions(ctx context.Context) error {
	var missing []need
	for _, n := range i.needs() {
		err := i.line.do(ctx, op{"ask about", n.queue, n.permission + " permission on it"}, n.request())
		switch {
		case errors.Is(err, lock.ErrDenied):
			missing = append(missing, n)
		case err == nil, errors.Is(err, errNoQueue), errors.Is(err, errTaken), errors.Is(err, errDiffers), errors.Is(err, errUnfit):
			// Turned down for another reason: permitted. What is wrong with a queue
			// that is there is found out elsewhere.
		case errors.Is(err, lock.ErrUnknown) && ctx.Err() == nil:
			i.problem(lock.ErrUnknown, "cannot tell whether user %q has %s permission: %s; try again when all nodes are up", i.conn.user, n.permission, err.Error())
		default:
			return err
		}
	}
	i.missing(missing)
	return nil
}

// request asks for something that needs the permission and that the broker then
// refuses all the same, so that it changes nothing. RabbitMQ looks at
// permissions before it looks at arguments: 403 means not permitted, everything
// else permitted.
func (n need) request() func(*amqp.Channel) error {
	switch n.permission {
	case "configure":
		return func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(n.queue, false, false, true, false, amqp.Table{"x-max-length": int32(-1)})
			return err
		}
	case "read":
		return func(ch *amqp.Channel) error {
			_, err := ch.Consume(n.queue, "", false, false, false, false, amqp.Table{"x-priority": "none"})
			if err == nil {
				// A broker that takes any priority: give back what came.
				return ch.Close()
			}
			return err
		}
	}
	return passive(n.queue)
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
	text := fmt.Sprintf("user %q has no %s permission on %s", i.conn.user, kind, queues)
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
	user := i.conn.user
	if user == "" {
		user = "USER"
	}
	return fmt.Sprintf("rabbitmqctl set_permissions -p %s %s %s %s %s", shellWord(i.vhost), shellWord(user),
		shellWord(i.pattern()), shellWord(writePattern), shellWord(i.pattern()))
}

var plainWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`) })

// shellWord quotes a text for a command line to be pasted into a shell.
func shellWord(text string) string {
	if plainWord().MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
