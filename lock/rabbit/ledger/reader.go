package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"berth/internal/boottime"
	"berth/lock"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/transport"
)

const (
	// readTimeout is how long the records take that a ledger was seen to have, before it is looked at again.
	readTimeout = 200 * time.Millisecond

	// deliveryTimeout bounds the way of a message through the broker to oneself.
	deliveryTimeout = 5 * time.Second
)

// Reader is the only consumer of a slot's ledger: the berth that may start next, or has just started. It has every
// record in hand, unacknowledged; when its channel ends, the broker puts them back, in one step with letting the next
// one in. Enter and Make make it. Its methods may be called from several goroutines.
type Reader struct {
	Missing bool // the ledger did not exist before
	Empty   bool // it had no record that tells of a holder, or was full: nothing is known

	copies *copies // of the own record; nil: the ledger is not replicated

	channel *transport.Channel
	clock   boottime.Clock
	queue   string
	handle  func(transport.Delivery) // see Visitor; nil: nobody minds
	busy    chan struct{}            // full while somebody puts records back, or goes

	mu       sync.Mutex          // guards what follows
	consumer *transport.Consumer // the last one
	view     View
	inHand   []letter
	own      uint64 // the tag of the own record in hand; 0: it is not
	pruned   bool   // the own record counts: what is no record may be removed
	doubted  int    // how many in hand look like records, and do not count
	overrun  bool   // there were more messages than can be kept in hand
	leaving  bool   // what still comes goes back with the place
	fresh    bool   // what is delivered is none of what was in hand
	changed  chan struct{}
	ended    chan struct{}
}

// letter is a delivered message that was not acknowledged.
type letter struct {
	tag    uint64
	record Record // that counts; its zero value: it is none
	doubt  bool   // it looks like one
}

// View is what a reader knows.
type View struct {
	History                      // what was read
	Proven      boottime.Instant // when the last proof began that the place is ours
	Read        int              // messages that were delivered, again maybe
	Asked       int              // the highest priority of those who ask for the place; -1: nobody
	HolderAlive bool             // a holder lives: its record has come since StepOut; of a replicated ledger since ours has
	Dropped     bool             // a record did not come again that was put back: see Prove
	Changed     <-chan struct{}  // closed when more is known
	Ended       <-chan struct{}  // closed when nothing is delivered any more: after StepOut, or the place is lost
}

// View returns what is known now.
func (r *Reader) View() View {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.view
	v.held, v.released = maps.Clone(v.held), maps.Clone(v.released)
	v.Changed, v.Ended = r.changed, r.ended
	return v
}

// Visitor is a berth that takes the reader's place of a ledger. Its zero value cannot hold the slot.
type Visitor struct {
	ID    string // of the holding that will be recorded
	Owner bool   // it owns B
	Above uint64 // the highest term that its contender has tried: a release of that may come late

	// Yield lets those in line go first, where the reader's place is free: its error keeps the visitor away. nil: it
	// comes at once.
	Yield func(context.Context) error

	// Knock has what is no record come to a replicated ledger, see Writer.Knock. nil: the visitor will not be recorded.
	Knock func(context.Context) error

	// Handle gets what comes to the reader and is no record. It does not wait.
	Handle func(transport.Delivery)
}

// Enter takes the reader's place of a ledger, and reads what is there. A ledger without a message is entered by the
// owner of B alone: who waits outside for a sign of life of its holder has the records in hand, and a visitor would
// look to that holder like one who has read them.
//
// Errors: ErrEmpty, transport.ErrTaken if somebody stands there, transport.ErrNoQueue if there is no ledger,
// lock.ErrDenied, lock.ErrUnknown, lock.ErrUnreachable, that of Visitor.Yield.
func Enter(ctx context.Context, channel *transport.Channel, queue string, who Visitor) (*Reader, error) {
	r, err := enter(ctx, channel, queue, who)
	switch {
	case errors.Is(err, ErrEmpty):
	case err != nil || !r.View().Unknown():
		return r, err
	default:
		if err := r.Close(ctx); err != nil {
			return nil, err
		}
	}
	// A reader that gives its place back lets the next one in a moment before its records.
	if err := transport.Sleep(ctx, transport.SecondLook); err != nil {
		return nil, err
	}
	return enter(ctx, channel, queue, who)
}

// ErrEmpty says that a ledger has no message.
var ErrEmpty = errors.New("the ledger is empty")

func enter(ctx context.Context, channel *transport.Channel, queue string, who Visitor) (*Reader, error) {
	r := newReader(channel, queue, who)
	records, err := r.consume(ctx, who)
	if err != nil {
		return nil, err
	}
	if err := r.read(ctx, records, 0); err != nil {
		return nil, errors.Join(err, r.Close(ctx))
	}
	// Of a full ledger the oldest may be gone: the record of somebody who lives.
	known := r.View()
	r.Empty = known.Unknown() || max(records, known.Read) >= names.LedgerFull
	return r, nil
}

// Make is Enter for a ledger that does not exist.
func Make(ctx context.Context, channel *transport.Channel, queue string, who Visitor) (*Reader, error) {
	r := newReader(channel, queue, who)
	consumer, err := channel.Consume(ctx, queue, transport.Consumption{Create: names.LedgerLength, Exclusive: true})
	if errors.Is(err, transport.ErrTaken) {
		return nil, err
	} else if err != nil {
		return nil, unreadable(err)
	}
	r.Missing = true
	r.follow(consumer)
	return r, nil
}

func newReader(channel *transport.Channel, queue string, who Visitor) *Reader {
	r := &Reader{
		channel: channel, clock: channel.Conn().Clock(), queue: queue, handle: who.Handle, busy: make(chan struct{}, 1),
		changed: make(chan struct{}),
	}
	r.view = View{History: NewHistory(who.ID, who.Above), Proven: r.clock.Now(), Asked: -1}
	return r
}

// consume takes the place, and returns how many messages have been delivered once all are read that are there. Looking
// whether somebody has it is nothing that a broker logs.
func (r *Reader) consume(ctx context.Context, who Visitor) (records int, err error) {
	waiting, consumers, err := r.channel.Count(ctx, r.queue)
	switch {
	case errors.Is(err, transport.ErrNoQueue):
		return 0, err
	case err != nil:
		return 0, unreadable(err)
	case consumers > 0:
		return 0, fmt.Errorf("cannot consume from queue %q: %w: %w", r.queue, ErrSuccessor, transport.ErrTaken)
	case waiting == 0 && !who.Owner:
		return 0, ErrEmpty
	}
	if who.Yield != nil {
		if err := who.Yield(ctx); err != nil {
			return 0, err
		}
	}
	consumer, err := r.channel.Consume(ctx, r.queue, transport.Consumption{Exclusive: true})
	if errors.Is(err, transport.ErrTaken) {
		return 0, err
	} else if err != nil {
		return 0, unreadable(err)
	}
	return waiting + r.follow(consumer), nil
}

// ErrSuccessor says that the reader's place is taken. It comes with transport.ErrTaken.
var ErrSuccessor = errors.New("the slot has a successor")

// unreadable keeps what is wrong with a ledger from being taken for what is said about the slot.
func unreadable(err error) error {
	switch {
	case errors.Is(err, transport.ErrNoQueue):
		return lock.Errorf(lock.ErrUnknown, "%s; it was deleted just now", err.Error())
	case errors.Is(err, transport.ErrTaken), errors.Is(err, transport.ErrDiffers):
		return lock.Errorf(lock.ErrUnknown, "%s; it is not a ledger of ours: delete it", err.Error())
	}
	return err
}

// follow takes what is delivered until the consumer ends. It returns how many messages were delivered before.
func (r *Reader) follow(consumer *transport.Consumer) (seen int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ended := make(chan struct{})
	r.consumer, r.ended, r.leaving = consumer, ended, false
	go func() {
		for m := range consumer.Deliveries {
			r.take(consumer, m)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		close(ended)
		r.ring()
	}()
	return r.view.Read
}

// read waits until so many messages were delivered, or no more are there: some may have expired. Nothing depends on it
// that all were read by then: the own record comes after everything that was there. Error: ErrTimedOut if they have not
// come after that long; zero: as long as ctx lives.
func (r *Reader) read(ctx context.Context, records int, longest time.Duration) error {
	for began := time.Now(); ; {
		err := r.await(ctx, readTimeout, func() bool { return r.view.Read >= records })
		if !errors.Is(err, ErrTimedOut) || longest > 0 && time.Since(began) >= longest {
			return err
		}
		if left, _, err := r.channel.Count(ctx, r.queue); err != nil || left == 0 {
			return err
		}
	}
}

// ring tells everybody who waits for a change. The caller has mu.
func (r *Reader) ring() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// ErrTimedOut says that something was not delivered in time.
var ErrTimedOut = errors.New("the broker did not deliver what was written")

// await waits until the condition, which is asked with mu, holds.
func (r *Reader) await(ctx context.Context, limit time.Duration, holds func() bool) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		r.mu.Lock()
		done, overrun, changed, ended := holds(), r.overrun, r.changed, r.ended
		r.mu.Unlock()
		if done {
			return nil
		}
		if overrun {
			return lock.Errorf(lock.ErrUnknown, "others write to queue %q all the time", r.queue)
		}
		if transport.IsClosed(ended) {
			return r.Lost()
		}
		select {
		case <-changed:
		case <-r.channel.Conn().Blocked():
			return r.channel.Conn().BrokenError(fmt.Sprintf("cannot read queue %q", r.queue))
		case <-ctx.Done():
			return fmt.Errorf("gave up waiting for queue %q: %w", r.queue, ctx.Err())
		case <-timer.C:
			return lock.Errorf(lock.ErrUnknown, "queue %q: %w within %s", r.queue, ErrTimedOut, limit)
		}
	}
}

// Deleted reports whether the place is lost because its ledger is gone. It says so once. Valid after the end of the
// deliveries.
func (r *Reader) Deleted() bool { return !r.channel.Closed() && r.consumer.Dropped() }

// Lost says why the place is lost. Valid after the end of the deliveries.
func (r *Reader) Lost() error {
	what := fmt.Sprintf("cannot consume from queue %q any more", r.queue)
	switch {
	case r.channel.Conn().Broken():
		return r.channel.Conn().BrokenError(what)
	case r.consumer.Dropped():
		return lock.Errorf(lock.ErrLost, "%s: it was deleted, or its node went down", what)
	}
	return lock.Errorf(lock.ErrLost, "%s: the broker has closed the channel", what)
}

// Channel is what it consumes on.
func (r *Reader) Channel() *transport.Channel { return r.channel }

// Close gives the place back with everything that was read, by closing the channel.
func (r *Reader) Close(ctx context.Context) error { return r.channel.Close(ctx) }
