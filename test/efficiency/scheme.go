package main

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit"
)

// contender is one who wants a slot, over a connection of its own.
type contender interface {
	acquire(ctx context.Context) error // errFull if every slot is held
	verify(ctx context.Context) error
	release(ctx context.Context) error
	close()
}

// errFull: every slot is held.
var errFull = errors.New("every slot is held")

// scheme is a way to hold slots in RabbitMQ.
type scheme struct {
	name     string
	kind     func(slots int) lock.Kind // nil: tokens alone, without berth
	protocol rabbit.Protocol
}

// schemes are all that are compared.
var schemes = []scheme{
	{"A/B, full protocol", aAndB, rabbit.ProtocolFull},
	{"A/B, plain protocol", aAndB, rabbit.ProtocolPlain},
	{"tokens, full protocol", func(int) lock.Kind { return lock.TokenSemaphore }, rabbit.ProtocolFull},
	{alone, nil, ""},
	{alonePolled, nil, ""},
}

// Tokens without berth: consumed, as the recipe is published, and fetched one by one.
const (
	alone       = "tokens alone"
	alonePolled = "tokens alone, by basic.get"
)

func aAndB(slots int) lock.Kind {
	if slots == 1 {
		return lock.Mutex
	}
	return lock.Semaphore
}

// create makes a lock of so many slots.
func (s scheme) create(ctx context.Context, url, name string, slots int) error {
	if s.kind == nil {
		return createTokens(url, name, slots)
	}
	id := lock.ID{Kind: s.kind(slots), Name: name}
	if !id.Kind.Administered() {
		return nil
	}
	b, err := rabbit.New(rabbit.Config{URLs: []string{url}, Protocol: s.protocol})
	if err != nil {
		return err
	}
	a := b.Administrator(id)
	_, _, err = a.Resize(ctx, 1, func(int) (int, error) { return slots, nil })
	return errors.Join(err, a.Close())
}

// connect returns somebody who contends for a lock, once as with --try.
func (s scheme) connect(ctx context.Context, url, name string, slots int, once bool) (contender, error) {
	if s.kind == nil {
		t, err := connectToTokens(url, name)
		if err == nil && s.name == alone && !once { // who does not wait cannot consume
			return &consumed{tokens: t}, nil
		}
		return t, err
	}
	b, err := rabbit.New(rabbit.Config{URLs: []string{url}, Protocol: s.protocol, Contention: lock.Contention{Once: once}})
	if err != nil {
		return nil, err
	}
	l := b.Lock(lock.ID{Kind: s.kind(slots), Name: name})
	if err := l.Connect(ctx); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &berth{lock: l, plain: s.protocol == rabbit.ProtocolPlain}, nil
}

// berth contends as berth does.
type berth struct {
	lock  lock.Lock
	plain bool
	held  lock.Held // the last one
}

// acquire returns when the command may start. With the plain protocol that would be the
// handover delay later, whatever has happened before: it returns when the slot is won.
func (b *berth) acquire(ctx context.Context) (err error) {
	b.held, err = b.lock.Acquire(ctx)
	switch {
	case errors.Is(err, lock.ErrFull):
		return errFull
	case err != nil || b.plain:
		return err
	}
	return b.held.Ready(ctx)
}

func (b *berth) verify(ctx context.Context) error  { return b.held.Verify(ctx) }
func (b *berth) release(ctx context.Context) error { return b.held.Release(ctx) }
func (b *berth) close()                            { _ = b.lock.Close() }

// tokens contends for a counting semaphore as it is published: messages in a queue, of
// which a holder keeps one unacknowledged. It has no fence, no record of who holds, and
// no delay after a holder that was cut off.
type tokens struct {
	conn    *amqp.Connection
	channel *amqp.Channel
	queue   string
	tag     uint64 // of the token that is held
}

func createTokens(url, name string, slots int) error {
	t, err := connectToTokens(url, name)
	if err != nil {
		return err
	}
	defer t.close()
	if _, err := t.channel.QueueDeclare(name, true, false, false, false,
		amqp.Table{"x-queue-type": "classic"}); err != nil {
		return err
	}
	if err := t.channel.Confirm(false); err != nil {
		return err
	}
	for range slots {
		done, err := t.channel.PublishWithDeferredConfirm("", name, false, false,
			amqp.Publishing{DeliveryMode: amqp.Persistent})
		if err != nil {
			return err
		}
		if !done.Wait() {
			return fmt.Errorf("the broker has not taken a token of %s", name)
		}
	}
	return nil
}

func connectToTokens(url, name string) (*tokens, error) {
	conn, err := amqp.DialConfig(url, amqp.Config{Heartbeat: rabbit.DefaultHeartbeat})
	if err != nil {
		return nil, err
	}
	channel, err := conn.Channel()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &tokens{conn: conn, channel: channel, queue: name}, nil
}

func (t *tokens) acquire(context.Context) error {
	token, found, err := t.channel.Get(t.queue, false)
	if err == nil && !found {
		return errFull
	}
	t.tag = token.DeliveryTag
	return err
}

// verify proves that the channel lives, and with it the token.
func (t *tokens) verify(context.Context) error {
	_, err := t.channel.QueueDeclarePassive(t.queue, true, false, false, false, nil)
	return err
}

// consumed is tokens that are consumed, one at a time.
type consumed struct{ *tokens }

func (t *consumed) acquire(ctx context.Context) error {
	if err := t.channel.Qos(1, 0, false); err != nil {
		return err
	}
	tokens, err := t.channel.ConsumeWithContext(ctx, t.queue, consumer, false, false, false, false, nil)
	if err != nil {
		return err
	}
	select {
	case token, open := <-tokens:
		if !open {
			return errors.New("the consumer has ended")
		}
		t.tag = token.DeliveryTag
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// release stops consuming first, or the token would come back.
func (t *consumed) release(ctx context.Context) error {
	return errors.Join(t.channel.Cancel(consumer, false), t.tokens.release(ctx))
}

const consumer = "holder"

func (t *tokens) release(context.Context) error { return t.channel.Nack(t.tag, false, true) }
func (t *tokens) close()                        { _ = t.conn.Close() }
