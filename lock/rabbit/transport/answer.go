package transport

import (
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit/broker"
)

// What a broker answers to an operation on a queue, besides yes.
var (
	ErrNoQueue = errors.New("no such queue")               // 404, and certain
	ErrTaken   = errors.New("another connection owns it")  // 405, a claim's also if it is nobody's; 403: it consumes
	ErrDiffers = errors.New("exists with other arguments") // 406

	// ErrUnfit is 406 for another reason, such as a limit on queues: nothing is known of the queue.
	ErrUnfit = errors.New("the broker does not take it")
)

const configure = "configure permission on it"

// operation is something that is asked of the broker, as messages describe it.
type operation struct {
	verb       string // "declare"
	queue      string // empty if it is about no single queue
	permission string // what it needs: "configure permission on it"
}

// Some releases want configure for it, others any permission.
func looking(queue string) operation { return operation{"look up", queue, configure} }

func consuming(queue string) operation {
	return operation{"consume from", queue, "read permission on it"}
}

func (o operation) String() string {
	if o.queue == "" {
		return "cannot " + o.verb
	}
	return fmt.Sprintf("cannot %s queue %q", o.verb, o.queue)
}

// noQueue is how a broker says of a queue that it does not exist. A 404 can also say that the queue's node is down,
// which proves nothing.
const noQueue = "NOT_FOUND - no queue "

// missing reports whether the reason of a 404 is that this operation's queue does not exist. Another queue's name may
// contain these very words. Of a reason longer than a short string of AMQP, RabbitMQ sends 252 bytes and three dots
// (amqp_exception_explanation in rabbit_binary_generator.erl).
func (o operation) missing(reason string) bool {
	text := noQueue + "'" + o.queue + "' in vhost "
	begin, cut := strings.CutSuffix(reason, "...")
	return strings.HasPrefix(reason, text) || cut && len(begin) > 240 && strings.HasPrefix(text, begin)
}

// explain turns what amqp091-go returned into one of our outcomes.
func (c *Conn) explain(o operation, err error) error {
	if err == nil {
		return nil
	}
	if c.Broken() {
		return c.BrokenError(o.String())
	}
	var answer *amqp.Error
	if !errors.As(err, &answer) {
		return lock.Errorf(lock.ErrUnknown, "%s: %s", o, broker.OneLine(err.Error()))
	}
	reason := broker.OneLine(answer.Reason)
	is := func(code int, begin string) bool {
		return answer.Code == code && strings.HasPrefix(answer.Reason, begin)
	}
	switch {
	case is(amqp.NotFound, "") && o.missing(answer.Reason):
		return fmt.Errorf("%s: %w", o, ErrNoQueue)
	case is(amqp.NotFound, noQueue):
		// Something that was asked on the channel before and not waited for.
		return lock.Errorf(lock.ErrUnknown, "%s: the broker closed the channel because of another queue (%s)", o,
			reason)
	case is(amqp.ResourceLocked, ""), is(amqp.AccessRefused, "ACCESS_REFUSED - queue '"): // "in exclusive use"
		return fmt.Errorf("%s: %w", o, ErrTaken)
	case is(amqp.PreconditionFailed, "PRECONDITION_FAILED - inequivalent arg "):
		return fmt.Errorf("%s: %w (%s)", o, ErrDiffers, reason)
	case is(amqp.PreconditionFailed, ""):
		return lock.Errorf(lock.ErrUnknown, "%s: %w (%s)", o, ErrUnfit, reason)
	case is(amqp.AccessRefused, ""):
		return lock.Errorf(lock.ErrDenied, "%s: grant the user the %s, as 'berth check --connect' prints it (%s)", o,
			o.permission, reason)
	default:
		return lock.Errorf(lock.ErrUnknown, "%s: %d %s", o, answer.Code, reason)
	}
}
