package rabbit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/lock"
	"berth/lock/rabbit/contender"
	"berth/lock/rabbit/holding"
	"berth/lock/rabbit/transport"
)

// slot returns what holds a slot of any kind of lock.
func slot(h lock.Held) *holding.Held { return h.(*holding.Held) }

// holder returns what a contender for any kind of lock holds with.
func holder(l lock.Lock) *holding.Holder { return l.(*contender.Contender).On().Holder }

// tokens returns what contends for the tokens of a lock; nil: it has none.
func tokens(l lock.Lock) *contender.Tokens {
	of, _ := l.(*contender.Contender).On().Caller.(*contender.Tokens)
	return of
}

// CloseConsumer has the broker close the channels that consume from B and from T, as one does that runs into
// consumer_timeout.
func CloseConsumer(ctx context.Context, h lock.Held) error {
	s := slot(h).Session
	return refuse(ctx, s.Side(), s.Main())
}

// CloseChannels has the broker close what a contender that waits consumes with, as one does that runs into
// consumer_timeout.
func CloseChannels(ctx context.Context, l lock.Lock) error {
	s := holder(l).Session
	return refuse(ctx, s.Side(), s.Main())
}

// refuse has the broker close channels. It may do so at any moment, also while something is being sent.
func refuse(ctx context.Context, channels ...*transport.Channel) error {
	for _, c := range channels {
		if err := c.Find(ctx, "no queue at all"); !errors.Is(err, transport.ErrNoQueue) {
			return fmt.Errorf("the broker has not closed the channel: %w", err)
		}
	}
	return nil
}

// Beside returns a slot that a contender which is the successor for this one would go to; 0: none.
func Beside(ctx context.Context, l lock.Lock, slot int) int {
	return holder(l).Finder.Beside(ctx, slot)
}

// EndConsumer closes the channel that consumes from T.
func EndConsumer(ctx context.Context, h lock.Held) error { return slot(h).Session.Main().Close(ctx) }

// AckWhileClosing acknowledges what comes from a queue while the channel is closed.
func AckWhileClosing(ctx context.Context, l lock.Lock, queue string) error {
	c := holder(l).Session.Side()
	consumer, err := c.Consume(ctx, queue, transport.Consumption{})
	if err != nil {
		return err
	}
	acked := make(chan struct{})
	go func() {
		defer close(acked)
		for d := range consumer.Deliveries {
			_ = consumer.Ack(d.DeliveryTag)
		}
	}()
	err = c.Close(ctx)
	<-acked
	return err
}

// EndWhatIsRefused ends the channel that consumes from B while the broker closes
// it, because of something that was sent before and not waited for.
func EndWhatIsRefused(ctx context.Context, h lock.Held) error {
	claims := slot(h).Session.Side()
	if _, err := claims.Consume(ctx, "no queue at all", transport.Consumption{NoWait: true}); err != nil {
		return err
	}
	return claims.Close(ctx)
}

// CutConnection cuts the connection that owns B, as a network does.
func CutConnection(h lock.Held) { slot(h).Session.Conn().Abandon() }

// Doubt has the holder doubt that it has the slot.
func Doubt(h lock.Held) { _ = slot(h).Claim.Doubt("the test says so") }

// CutContender cuts the connection of a contender that waits, as its death does.
func CutContender(l lock.Lock) { holder(l).Session.Conn().Abandon() }

// SetYoung makes the holder take a ledger that it has made that long ago for one
// that the broker may still lose.
func SetYoung(h lock.Held, young time.Duration) { slot(h).Env.Young = young }

// TakeBAfter makes the holder claim B when its command has run for that long.
func TakeBAfter(h lock.Held, ran time.Duration) { slot(h).Env.TakeBAfter = ran }

// Queues returns the names of B and T of the slot.
func Queues(h lock.Held) (b, ledger string) {
	names := slot(h).Names
	return names.Holds(h.Slot()), names.Ledger(h.Slot())
}

// LoseRaces makes the contender lose every race for these slots, though they
// are free.
func LoseRaces(l lock.Lock, from, to int) {
	for slot := from; slot <= to; slot++ {
		holder(l).Skipped.Add(slot, time.Hour, transport.ErrTaken)
	}
}

// RenewBatons makes the contender renew the batons that it will keep this often.
func RenewBatons(l lock.Lock, period time.Duration) {
	holder(l).Waiter.Renewal = period
}

// LookSeldom makes the contender wait as one that has waited for long: its next
// look by itself is a minute away, 10 s while batons do not reach it.
func LookSeldom(l lock.Lock) {
	if tokens(l) == nil { // otherwise it does from the start
		w := holder(l).Waiter
		w.Looks, w.Arrived = 100, true
	}
}

// Probe asks about all these queues at once, as the contender does.
func Probe(ctx context.Context, l lock.Lock, queues ...string) error {
	found, err := holder(l).Session.Probe(ctx, queues)
	for _, p := range found {
		if p == transport.Unknown {
			return lock.ErrUnknown
		}
	}
	return err
}

// Presence is what is found out about a queue, as text.
func Presence(ctx context.Context, l lock.Lock, queues ...string) (all []string, err error) {
	s := holder(l).Session
	found, err := s.Probe(ctx, queues)
	words := map[transport.Presence]string{
		transport.Unknown: "unknown", transport.Absent: "absent", transport.Present: "present",
	}
	for i, p := range found {
		one, err := s.ProbeOne(ctx, queues[i])
		if err != nil || one != p {
			return nil, fmt.Errorf("alone %s is %s, %w", queues[i], words[one], err)
		}
		all = append(all, words[p])
	}
	return all, err
}

// ExecuteWill executes a will, as a guard does whose tree is dead.
func ExecuteWill(ctx context.Context, will []byte) error {
	executor, err := PrepareWill(will, nil)
	if err != nil {
		return err
	}
	return executor.Execute(ctx)
}

// KeepAnswering makes the contender keep its connection for answers for that long after the last one.
func KeepAnswering(l lock.Lock, idle time.Duration) {
	holder(l).Inbox.Idle = idle
}

// LookForTokens makes a contender that waits look for lost tokens this often.
func LookForTokens(l lock.Lock, period time.Duration) {
	tokens(l).Look = period
}

// LookForTokensFirst makes it do so this long after it has begun to wait.
func LookForTokensFirst(l lock.Lock, after time.Duration) {
	tokens(l).FirstLook = after
}

// RenewTokens makes the contender have the tokens that it will keep delivered again this often.
func RenewTokens(l lock.Lock, period time.Duration) {
	tokens(l).Drawer.Renewal = period
}

// PublishApart has a contender publish over other connections, as after an alarm.
func PublishApart(l lock.Lock) { holder(l).Session.KeepSilent(true) }

// CloseToken has the broker close the channel of the holder's token, as one does that runs into consumer_timeout.
func CloseToken(ctx context.Context, h lock.Held) error {
	channel, _ := slot(h).Token.InHand()
	return refuse(ctx, channel)
}

// KeepsToken reports whether the holder has the token of its slot.
func KeepsToken(h lock.Held) bool {
	_, known := slot(h).Token.InHand()
	return known
}

// TendToken has the holder see to its token, as it does with each verification.
func TendToken(h lock.Held) { slot(h).Token.Tend() }

// SetLease makes contenders with the plain protocol, and who waits for vacant slots, take that for the lease.
func SetLease(b *Backend, lease time.Duration) { b.lease = lease }

// CutPlain cuts the connection that owns B of a holder with the plain protocol.
func CutPlain(h lock.Held) { slot(h).Claim.Conn().Abandon() }

// SetLongest makes a contender wait that long where a ledger does not say for how long.
func SetLongest(l lock.Lock, longest time.Duration) {
	holder(l).Env.MaxLease = longest
}

// RewriteMoreOften makes a contender write the record that it keeps so many times as often.
func RewriteMoreOften(l lock.Lock, times int) {
	holder(l).Env.RewriteInterval /= time.Duration(times)
}

// CutReplicated cuts the connection of a holder that has no queue of its own.
func CutReplicated(h lock.Held) { slot(h).Claim.Conn().Abandon() }

// CloseReader closes the channel on which such a holder has the reader's place.
func CloseReader(ctx context.Context, h lock.Held) error {
	return slot(h).Session.Main().Close(ctx)
}

// ReadyInPlace is Ready of the slot alone, without what its token has to do.
func ReadyInPlace(ctx context.Context, h lock.Held) error {
	of := slot(h).Token
	slot(h).Token = nil
	defer func() { slot(h).Token = of }()
	return h.Ready(ctx)
}

// RenewEvery has open connections look for another password so often.
func RenewEvery(b *Backend, pause time.Duration) { b.renewal = pause }

// HoldsB reports whether queue B of the slot is the holder's.
func HoldsB(h lock.Held) bool { return slot(h).Claim.Ours() }
