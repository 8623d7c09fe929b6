package transport

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

// operationTimeout bounds one operation of the broker. The slowest that belongs to normal work, an exclusive declare,
// takes milliseconds; a cluster that has lost a node may not answer for half a minute, and then it is better to turn
// to another node.
const operationTimeout = 5 * time.Second

// removalTimeout is the same for the removal of a quorum queue: RabbitMQ itself waits 5 s for each member whose node is
// lost.
const removalTimeout = 15 * time.Second

// Channel is a channel of a connection for operations that the broker may refuse. A refusal closes the channel (AMQP
// 0-9-1 calls it a channel exception); the next operation then opens another. It may be used from several goroutines,
// whose operations wait for each other.
//
// The errors of its methods are ErrNoQueue, ErrTaken, ErrDiffers, lock.ErrDenied, lock.ErrUnknown,
// lock.ErrUnreachable and that of ctx.
type Channel struct {
	conn    *Conn
	busy    chan struct{}                // full while an operation is made
	ch      atomic.Pointer[amqp.Channel] // nil, open, or closed by a refusal; set by an operation
	patient atomic.Bool                  // see BePatient
	sending Mutex                        // held to send what has no answer, and to close

	confirming  bool               // ch is in confirm mode
	transacting bool               // ch has transactions
	returns     <-chan amqp.Return // of ch in either mode: what it was given and could not be routed
	closes      <-chan *amqp.Error // of ch in confirm mode: why it was closed
	unsure      bool               // returns that nobody waits for may still come
}

// Channel returns another channel of the connection, which is opened when it is first used. An operation whose ctx
// ends, or that takes too long, cuts the connection: what it may have obtained dies with it.
func (c *Conn) Channel() *Channel {
	return &Channel{conn: c, busy: make(chan struct{}, 1), sending: NewMutex()}
}

// BePatient has operations end with their answers or with the connection, whatever ctx says, or not any more: to give
// one up means to cut the connection, and a slot with it.
func (c *Channel) BePatient(patient bool) { c.patient.Store(patient) }

// Conn returns the connection of the channel.
func (c *Channel) Conn() *Conn { return c.conn }

// Closed reports whether the channel is not open: it was not used yet, or something was refused.
func (c *Channel) Closed() bool {
	ch := c.ch.Load()
	return ch == nil || ch.IsClosed()
}

// do makes an operation, on a channel that is open.
func (c *Channel) do(ctx context.Context, o operation, f func(*amqp.Channel) error) error {
	return c.within(ctx, operationTimeout, o, f)
}

func (c *Channel) within(ctx context.Context, longest time.Duration, o operation, f func(*amqp.Channel) error) error {
	select {
	case c.busy <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", o, ctx.Err())
	case <-c.conn.done:
		return c.conn.BrokenError(o.String())
	}
	defer func() { <-c.busy }()
	if c.patient.Load() {
		return c.conn.explain(o, c.use(f))
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", o, ctx.Err())
	}
	bounded, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	stop := context.AfterFunc(bounded, c.conn.Abandon)
	err := c.conn.explain(o, c.use(f))
	if stop() {
		return err
	}
	c.conn.Abandon() // it may be only about to run
	if ctx.Err() != nil {
		return fmt.Errorf("%s: gave up waiting for the broker: %w", o, ctx.Err())
	}
	return lock.Errorf(lock.ErrUnreachable, "%s: no answer from %s within %s", o, c.conn.Label(), longest)
}

func (c *Channel) use(f func(*amqp.Channel) error) error {
	if c.Closed() {
		ch, err := c.conn.amqp.Channel()
		if err != nil {
			return err
		}
		c.ch.Store(ch)
		c.confirming, c.transacting, c.unsure = false, false, false
	}
	return f(c.ch.Load())
}

// Open opens the channel ahead of time.
func (c *Channel) Open(ctx context.Context) error {
	return c.do(ctx, operation{verb: "open a channel"}, func(*amqp.Channel) error { return nil })
}

// Find declares the queue passively: nil means that it exists and is not somebody else's.
func (c *Channel) Find(ctx context.Context, queue string) error {
	_, _, err := c.Count(ctx, queue)
	return err
}

// Look is Find, and says what its answer means.
func (c *Channel) Look(ctx context.Context, queue string) (Presence, error) {
	switch err := c.Find(ctx, queue); {
	case errors.Is(err, ErrNoQueue):
		return Absent, nil
	case err == nil, errors.Is(err, ErrTaken):
		return Present, nil
	default:
		return Unknown, err
	}
}

// LookAll looks at one queue after the other. What the broker cannot say of one is Unknown, and no error.
func (c *Channel) LookAll(ctx context.Context, queues []string) (found []Presence, err error) {
	for _, queue := range queues {
		p, err := c.Look(ctx, queue)
		if err != nil && !errors.Is(err, lock.ErrUnknown) {
			return nil, err
		}
		found = append(found, p)
	}
	return found, nil
}

// Count is Find, and returns how many messages the queue has that are in nobody's hand, and how many consume from it.
func (c *Channel) Count(ctx context.Context, queue string) (messages, consumers int, err error) {
	err = c.do(ctx, looking(queue), func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(queue, false, false, false, false, nil)
		messages, consumers = q.Messages, q.Consumers
		return err
	})
	return messages, consumers, err
}

// SecondLook is after how long a queue that seems to be empty is looked at again: it can answer a look before it puts back
// what it was given before (RabbitMQ 4.3 does so when it is busy).
const SecondLook = 50 * time.Millisecond

// Abandoned reports whether a queue has neither messages nor consumers, at two looks, and how many messages it has.
func (c *Channel) Abandoned(ctx context.Context, queue string) (abandoned bool, messages int, err error) {
	for range 2 {
		messages, consumers, err := c.Count(ctx, queue)
		if err != nil || messages > 0 || consumers > 0 {
			return false, messages, err
		}
		if err := Sleep(ctx, SecondLook); err != nil {
			return false, 0, err
		}
	}
	return true, 0, nil
}

// Get takes one message of the queue, if there is one, to be acknowledged as one that was consumed.
func (c *Channel) Get(ctx context.Context, queue string) (d Delivery, found bool, err error) {
	err = c.do(ctx, consuming(queue), func(ch *amqp.Channel) (err error) {
		d, found, err = ch.Get(queue, false)
		return err
	})
	return d, found && err == nil, err
}

// Claim declares the queue as this connection's own. It keeps no message and refuses none: one that is published to
// it is confirmed and gone.
func (c *Channel) Claim(ctx context.Context, queue string) error {
	return c.ClaimKeeping(ctx, queue, 0)
}

// ClaimKeeping is Claim for a queue that keeps so many messages.
func (c *Channel) ClaimKeeping(ctx context.Context, queue string, length int32) error {
	_, err := c.declare(ctx, "claim", queue, true, length)
	return err
}

// Create declares the queue as a durable one for everybody, which keeps so many messages: the newest. It returns how
// many consume from it.
func (c *Channel) Create(ctx context.Context, queue string, length int32) (consumers int, err error) {
	return c.declare(ctx, "create", queue, false, length)
}

// CreateReplicated declares the queue as a durable one on several nodes of a cluster. With single, one of its consumers
// is given all messages, and the next one only once that is gone. A client that declares a queue that is there has to
// give the same arguments, which depend on the broker's version: look for it before.
func (c *Channel) CreateReplicated(ctx context.Context, queue string, length int32, single bool) error {
	return c.do(ctx, operation{"create", queue, configure}, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, true, false, false, false, c.replicated(length, single))
		return err
	})
}

// CreateTrial declares a quorum queue without any argument of the lock's own, to see what policies make of it. It goes by
// itself when it was not used for a minute.
func (c *Channel) CreateTrial(ctx context.Context, queue string) error {
	return c.do(ctx, operation{"create", queue, configure}, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, true, false, false, false,
			amqp.Table{"x-queue-type": "quorum", "x-expires": int32(time.Minute.Milliseconds())})
		return err
	})
}

// replicated returns the arguments of a quorum queue. No node is to lead all: where one hangs, so do the queues that it
// leads, for seconds. RabbitMQ 4.0 and later drops a message that has come back 20
// times; earlier ones drop none, and take -1 for a limit (3.10.8). From 4.3 on what a consumer on a lost node had is
// handed on after a minute, if nothing else is said, and a policy (delayed-retry-type) may have what is put back come
// again late: it beats an argument that disables that, but of delays the smallest counts.
func (c *Channel) replicated(length int32, single bool) amqp.Table {
	arguments := amqp.Table{"x-queue-type": "quorum", "x-max-length": length, "x-overflow": "drop-head",
		"x-queue-leader-locator": "balanced"}
	if single {
		arguments["x-single-active-consumer"] = true
	}
	if c.conn.Since(4, 0) {
		arguments["x-delivery-limit"] = int32(-1)
	}
	if c.conn.Since(4, 3) {
		arguments["x-consumer-disconnected-timeout"] = int32(0)
		arguments["x-delayed-retry-min"], arguments["x-delayed-retry-max"] = int32(1), int32(1) // ms
	}
	return arguments
}

func (c *Channel) declare(ctx context.Context, verb, queue string, exclusive bool, length int32) (
	consumers int, err error) {
	err = c.do(ctx, operation{verb, queue, configure}, func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclare(queue, !exclusive, false, exclusive, false, classic(length))
		consumers = q.Consumers
		return err
	})
	return consumers, err
}

// Remove deletes the queue and waits for the answer. A queue that does not exist counts as removed.
func (c *Channel) Remove(ctx context.Context, queue string) error {
	return c.remove(ctx, operationTimeout, queue, false)
}

// RemoveReplicated is Remove for a queue on several nodes.
func (c *Channel) RemoveReplicated(ctx context.Context, queue string) error {
	return c.remove(ctx, removalTimeout, queue, false)
}

// Discard deletes the queue if it has no messages and nobody consumes from it. One that does not exist counts as deleted.
func (c *Channel) Discard(ctx context.Context, queue string) error {
	return c.remove(ctx, operationTimeout, queue, true)
}

func (c *Channel) remove(ctx context.Context, longest time.Duration, queue string, idle bool) error {
	return c.within(ctx, longest, operation{"delete", queue, configure}, func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(queue, idle, idle, false)
		return err
	})
}

// Close closes the channel, if there is one. What was got on it and is unacknowledged is then back in its queue.
//
// That the broker has closed it meanwhile, because it refuses something that was not waited for, is as good: what was
// got is back, and consumers are gone. That the connection broke is not.
func (c *Channel) Close(ctx context.Context) error {
	if c.Closed() || c.conn.Broken() {
		return nil
	}
	return c.do(ctx, operation{verb: "close a channel"}, func(ch *amqp.Channel) error {
		// amqp091-go takes it for open until the answer comes. What follows the close ends the connection.
		c.sending.Lock()
		defer c.sending.Unlock()
		err := ch.Close()
		var answer *amqp.Error
		refused := errors.As(err, &answer) && (answer.Server || answer == amqp.ErrClosed)
		if refused && !c.conn.Broken() {
			return nil
		}
		return err
	})
}

// MayConfigure asks for a declaration that the broker refuses even where it is permitted, so that it changes nothing:
// RabbitMQ looks at permissions before it looks at arguments. lock.ErrDenied means not permitted, ErrUnfit and
// everything else that a broker answers permitted.
func (c *Channel) MayConfigure(ctx context.Context, queue string) error {
	return c.ClaimKeeping(ctx, queue, -1)
}

// MayRead does the same for consuming.
func (c *Channel) MayRead(ctx context.Context, queue string) error {
	return c.do(ctx, consuming(queue), func(ch *amqp.Channel) error {
		_, err := ch.Consume(queue, "", false, false, false, false, amqp.Table{"x-priority": "none"})
		if err == nil { // a broker that takes any priority: give back what came
			err = ch.Close()
		}
		return err
	})
}

// classic returns the arguments of a classic queue of that length, where what does not fit pushes out the oldest.
// They override policies, but for a lower length, and the default type of the virtual host. Others would not do:
// reject-publish would nack every probe, and a quorum queue keeps no other consumer out.
func classic(length int32) amqp.Table {
	return amqp.Table{"x-queue-type": "classic", "x-max-length": length, "x-overflow": "drop-head"}
}
