package rabbit

import (
	"bytes"
	"context"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

// CloseConsumer closes the channel that consumes from B, as a broker does that
// runs into consumer_timeout.
func CloseConsumer(h lock.Held) error { return h.(*held).l.claims.ch.Close() }

// EndWhatIsRefused ends the channel that consumes from B while the broker closes
// it, because of something that was sent before and not waited for.
func EndWhatIsRefused(ctx context.Context, h lock.Held) error {
	l := h.(*held).l.claims
	l.conn.out.begin(2) // both in one piece, so that the refusal comes after the second
	defer l.conn.out.end()
	if _, err := l.ch.Consume("no queue at all", "", true, false, false, true, nil); err != nil {
		return err
	}
	return l.end(ctx)
}

// EndWhileItBreaks ends the channel that consumes from B and cuts the connection
// before the broker can answer.
func EndWhileItBreaks(ctx context.Context, h lock.Held) error {
	l := h.(*held).l.claims
	out := l.conn.out
	out.begin(0) // so that the broker is not asked
	defer out.end()
	ended := make(chan error, 1)
	go func() { ended <- l.end(ctx) }()
	for ctx.Err() == nil && !out.gathered(channelClose) {
		time.Sleep(time.Millisecond)
	}
	l.conn.abandon()
	return <-ended
}

// channelClose is how that method begins: its class and number (AMQP 0-9-1,
// 1.5.2.5).
var channelClose = []byte{0, 20, 0, 40}

// gathered reports whether the method is among what waits to be written, beside
// what other channels do.
func (b *batching) gathered(method []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Contains(b.data, method)
}

// CutConnection cuts the connection that owns B, as a network does.
func CutConnection(h lock.Held) { h.(*held).conn.abandon() }

// SetUser makes the holder take another user for its own, as it does where the
// broker takes the user from a certificate.
func SetUser(h lock.Held, user string) { h.(*held).conn.user = user }

// SetAge makes the holder take that long ago for when it won its slot.
func SetAge(h lock.Held, age time.Duration) { h.(*held).won = time.Now().Add(-age) }

// NoQueue reports whether the text of a 404 is taken for proof that this queue does
// not exist.
func NoQueue(queue, text string) bool {
	c := &conn{amqp: &amqp.Connection{}}
	return errors.Is(c.explain(looking(queue), &amqp.Error{Code: amqp.NotFound, Reason: text, Server: true}), errNoQueue)
}

// LoseRaces makes the contender lose every race for these slots, though they
// are free.
func LoseRaces(l lock.Lock, from, to int) {
	for slot := from; slot <= to; slot++ {
		l.(*contender).avoid(slot, time.Hour, errTaken)
	}
}

// BePolite makes the contender wait for that long before it claims again what it
// has given back.
func BePolite(l lock.Lock, d time.Duration) { l.(*contender).courtesy = d }

// RenewBatons makes the contender renew the batons that it will hold this often.
func RenewBatons(l lock.Lock, period time.Duration) { l.(*contender).period = period }

// LookSeldom makes the contender wait as one that has waited for long: its next
// look by itself is a minute away, 10 s while batons do not reach it.
func LookSeldom(l lock.Lock) { l.(*contender).looks = 100 }

// NextLook returns after what time a contender that has waited for long, and is
// told of batons, looks by itself; blind is where a look without the courier goes on.
func NextLook(l lock.Lock, blind int) time.Duration {
	c := l.(*contender)
	c.looks, c.blind = 100, blind
	c.takePart().waiting.Store(true)
	return c.nextLook()
}
