package rabbit

import (
	"context"
	"time"

	"berth/lock"
	"berth/lock/rabbit/contender"
	"berth/lock/rabbit/holding"
	"berth/lock/rabbit/transport"
)

// CloseConsumer closes the channel that consumes from B, as a broker does that
// runs into consumer_timeout.
func CloseConsumer(ctx context.Context, h lock.Held) error {
	return h.(*holding.Held).Session.Claims().Close(ctx)
}

// EndWhatIsRefused ends the channel that consumes from B while the broker closes
// it, because of something that was sent before and not waited for.
func EndWhatIsRefused(ctx context.Context, h lock.Held) error {
	claims := h.(*holding.Held).Session.Claims()
	if _, err := claims.Consume(ctx, "no queue at all", transport.Consumption{NoWait: true}); err != nil {
		return err
	}
	return claims.Close(ctx)
}

// CutConnection cuts the connection that owns B, as a network does.
func CutConnection(h lock.Held) { h.(*holding.Held).Session.Conn().Abandon() }

// SetUser makes the holder take another user for its own, as it does where the
// broker takes the user from a certificate.
func SetUser(h lock.Held, user string) { h.(*holding.Held).Env.User = user }

// SetYoung makes the holder take a ledger that it has made that long ago for one
// that the broker may still lose.
func SetYoung(h lock.Held, young time.Duration) { h.(*holding.Held).Env.Young = young }

// LoseRaces makes the contender lose every race for these slots, though they
// are free.
func LoseRaces(l lock.Lock, from, to int) {
	for slot := from; slot <= to; slot++ {
		l.(*contender.Contender).Holder.Avoided.Add(slot, time.Hour, transport.ErrTaken)
	}
}

// BePolite makes the contender wait for that long before it claims again what it
// has given back.
func BePolite(l lock.Lock, d time.Duration) { l.(*contender.Contender).Waiter.Courtesy = d }

// RenewBatons makes the contender renew the batons that it will hold this often.
func RenewBatons(l lock.Lock, period time.Duration) { l.(*contender.Contender).Waiter.Renewal = period }

// LookSeldom makes the contender wait as one that has waited for long: its next
// look by itself is a minute away, 10 s while batons do not reach it.
func LookSeldom(l lock.Lock) { l.(*contender.Contender).Waiter.Looks = 100 }

// Probe asks about all these queues at once, as the contender does.
func Probe(ctx context.Context, l lock.Lock, queues ...string) error {
	found, err := l.(*contender.Contender).Holder.Session.Publisher.Probe(ctx, queues)
	for _, p := range found {
		if p == transport.Unknown {
			return lock.ErrUnknown
		}
	}
	return err
}
