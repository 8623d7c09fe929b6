package rabbit

import (
	"context"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"
)

// line is a channel of a connection for operations that the broker may refuse.
// A refusal closes the channel (AMQP 0-9-1 calls it a channel exception); the
// next operation then opens another. One operation at a time.
type line struct {
	conn *conn
	ch   *amqp.Channel // nil, open, or closed by a refusal

	cancels <-chan string // of ch: consumers that the broker has ended
}

func (l *line) open() (*amqp.Channel, error) {
	if l.ch != nil && !l.ch.IsClosed() {
		return l.ch, nil
	}
	ch, err := l.conn.amqp.Channel()
	if err == nil {
		// One listener for the channel's life: amqp091-go waits for each to take
		// what it has to tell. A channel has few consumers, one after the other.
		l.ch, l.cancels = ch, ch.NotifyCancel(make(chan string, 16))
	}
	return ch, err
}

// prepare opens the channel ahead of time: a lost race has closed it.
func (l *line) prepare(ctx context.Context) error {
	if l.ch != nil && !l.ch.IsClosed() {
		return nil
	}
	return l.do(ctx, op{verb: "open a channel"}, func(*amqp.Channel) error { return nil })
}

func (l *line) try(f func(*amqp.Channel) error) error {
	ch, err := l.open()
	if err != nil {
		return err
	}
	return f(ch)
}

func (l *line) do(ctx context.Context, o op, f func(*amqp.Channel) error) error {
	return l.conn.do(ctx, o, func() error { return l.try(f) })
}

// look declares the queue passively and without a deadline: nil means that it
// exists and is not somebody else's.
func (l *line) look(queue string) error {
	return l.conn.explain(looking(queue), l.try(passive(queue)))
}

// state is look, and returns how many messages the queue has that are in nobody's
// hand, and how many consume from it.
func (l *line) state(queue string) (messages, consumers int, err error) {
	err = l.conn.explain(looking(queue), l.try(counting(queue, &messages, &consumers)))
	return messages, consumers, err
}

// count is state with a deadline.
func (l *line) count(ctx context.Context, queue string) (messages, consumers int, err error) {
	err = l.do(ctx, looking(queue), counting(queue, &messages, &consumers))
	return messages, consumers, err
}

// find is look with a deadline.
func (l *line) find(ctx context.Context, queue string) error {
	return l.do(ctx, looking(queue), passive(queue))
}

const configure = "configure permission on it"

// Some releases want configure for it, others any permission.
func looking(queue string) op { return op{"look up", queue, configure} }

func passive(queue string) func(*amqp.Channel) error {
	return func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(queue, false, false, false, false, nil)
		return err
	}
}

func counting(queue string, messages, consumers *int) func(*amqp.Channel) error {
	return func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(queue, false, false, false, false, nil)
		*messages, *consumers = q.Messages, q.Consumers
		return err
	}
}

// claim declares the queue as this connection's own.
func (l *line) claim(ctx context.Context, queue string) error {
	return l.do(ctx, op{"claim", queue, configure}, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, false, false, true, false, empty())
		return err
	})
}

// make declares the queue as a durable one for everybody.
func (l *line) make(ctx context.Context, queue string) error {
	return l.do(ctx, op{"create", queue, configure}, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, true, false, false, false, empty())
		return err
	})
}

// makeLedger declares a ledger, which may exist already.
func (l *line) makeLedger(ctx context.Context, queue string) error {
	return l.do(ctx, op{"create", queue, configure}, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, true, false, false, false, bounded())
		return err
	})
}

// remove deletes the queue and waits for delete-ok. A queue that does not exist
// counts as removed.
func (l *line) remove(ctx context.Context, queue string) error {
	return l.do(ctx, op{"delete", queue, configure}, func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(queue, false, false, false)
		return err
	})
}

// end closes the channel, if there is one.
func (l *line) end(ctx context.Context) error {
	if l.ch == nil || l.ch.IsClosed() || l.conn.broken() {
		return nil
	}
	return l.do(ctx, op{verb: "close a channel"}, func(ch *amqp.Channel) error { return l.conn.closeChannel(ch) })
}

// closeChannel closes a channel of the connection. That the broker has closed it
// meanwhile, because it refuses something that was not waited for, is as good:
// what was read is back, and consumers are gone. That the connection broke is not.
func (c *conn) closeChannel(ch *amqp.Channel) error {
	err := ch.Close()
	var answer *amqp.Error
	refused := errors.As(err, &answer) && (answer.Server || answer == amqp.ErrClosed)
	if refused && !c.broken() {
		return nil
	}
	return err
}
