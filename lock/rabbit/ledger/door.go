package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"berth/internal/boottime"
	"berth/lock"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/transport"
)

const (
	// readTimeout is how long the records take that a ledger was seen to have, before it is
	// looked at again.
	readTimeout = 200 * time.Millisecond

	// recordTries bounds the attempts to be recorded after everybody else.
	recordTries = 5

	// deliveryTimeout bounds the way of a message through the broker to oneself.
	deliveryTimeout = 5 * time.Second
)

// Door is the place of the only consumer of a slot's ledger: of who may start next, or
// has just started. Who stands there has every record in hand, unacknowledged; when its
// channel ends, the broker puts them back, in one step with letting the next one in.
// Enter makes it. Its methods may be called from several goroutines.
type Door struct {
	Missing bool // the ledger did not exist before
	Empty   bool // it had no record of a holder, so that nothing is known

	channel *transport.Channel
	queue   string

	turn chan struct{} // has one token; whoever took it may put records back

	mu       sync.Mutex
	consumer *transport.Consumer // guarded by mu
	ended    chan struct{}       // closed when nothing is delivered any more; guarded by mu
	known    History             // guarded by mu
	inHand   []letter            // guarded by mu
	seen     int                 // messages that were delivered; guarded by mu
	fresh    bool                // what is delivered is none of what was in hand; guarded by mu
	echoed   bool                // a holder that was known has written its record again; guarded by mu
	proven   boottime.Instant    // when the last proof that this is our place began; guarded by mu
	asked    int                 // the highest priority of those who ask for the place; -1: nobody; guarded by mu
	changed  chan struct{}       // closed with the next change; guarded by mu
}

// letter is a delivered message that was not acknowledged.
type letter struct {
	tag    uint64
	record Record // its zero value: it is none
}

// Enter takes the place at the door of a ledger, and reads what is there. id is that of
// the holding that will be recorded, "" for nobody's.
//
// Errors: transport.ErrTaken if somebody stands there, transport.ErrNoQueue if there is no
// ledger, lock.ErrDenied, lock.ErrUnknown, lock.ErrUnreachable. Looking whether somebody
// does is nothing that a broker logs.
func Enter(ctx context.Context, channel *transport.Channel, queue, id string) (*Door, error) {
	records, consumers, err := channel.Count(ctx, queue)
	switch {
	case errors.Is(err, transport.ErrNoQueue):
		return nil, err
	case err != nil:
		return nil, unreadable(err)
	case consumers > 0:
		return nil, taken(queue)
	}
	consumer, err := channel.Consume(ctx, queue, transport.Consumption{Exclusive: true})
	if errors.Is(err, transport.ErrTaken) {
		return nil, err
	} else if err != nil {
		return nil, unreadable(err)
	}
	return enter(ctx, channel, queue, id, consumer, records)
}

// Make is Enter for a ledger that does not exist.
func Make(ctx context.Context, channel *transport.Channel, queue, id string) (*Door, error) {
	consumer, err := channel.Consume(ctx, queue, transport.Consumption{Create: names.LedgerLength, Exclusive: true})
	if errors.Is(err, transport.ErrTaken) {
		return nil, err
	} else if err != nil {
		return nil, unreadable(err)
	}
	d, err := enter(ctx, channel, queue, id, consumer, 0)
	if err == nil {
		d.Missing, d.Empty = d.Empty, false
	}
	return d, err
}

// enter reads so many records of a ledger.
func enter(ctx context.Context, channel *transport.Channel, queue, id string, consumer *transport.Consumer,
	records int) (*Door, error) {
	d := &Door{
		channel: channel, queue: queue, consumer: consumer, proven: boottime.Now(), known: History{id: id}, asked: -1,
		ended: make(chan struct{}), changed: make(chan struct{}), turn: make(chan struct{}, 1),
	}
	d.turn <- struct{}{}
	go d.run(consumer, d.ended)
	if err := d.read(ctx, records); err != nil {
		return nil, errors.Join(err, d.Close(ctx))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Empty = len(d.known.held) == 0
	return d, nil
}

// unreadable keeps what is wrong with a ledger from being taken for what is said
// about the slot.
func unreadable(err error) error {
	switch {
	case errors.Is(err, transport.ErrNoQueue):
		return lock.Errorf(lock.ErrUnknown, "%s; it was deleted just now", err.Error())
	case errors.Is(err, transport.ErrTaken), errors.Is(err, transport.ErrDiffers):
		return lock.Errorf(lock.ErrUnknown, "%s; it is not a ledger of ours: delete it", err.Error())
	}
	return err
}

// run takes what is delivered until the consumer ends.
func (d *Door) run(consumer *transport.Consumer, ended chan struct{}) {
	for m := range consumer.Deliveries {
		d.take(m)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	close(ended)
	d.ring()
}

// read waits until so many messages were delivered, or no more are there: some may have
// expired. Nothing depends on it that all were read by then: the own record comes
// after everything that was there.
func (d *Door) read(ctx context.Context, records int) error {
	for {
		err := d.await(ctx, readTimeout, func() bool { return d.seen >= records })
		if !errors.Is(err, errLate) {
			return err
		}
		if left, _, err := d.channel.Count(ctx, d.queue); err != nil || left == 0 {
			return err
		}
	}
}

// errLate says that something was not delivered in time.
var errLate = errors.New("the broker did not deliver in time what was written")

// Disowned reports whether this holding was released by somebody else: its guard.
func (d *Door) Disowned() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known.own > 0 && d.known.Released(d.known.own)
}

// ErrNext says that somebody stands at the door. It comes with transport.ErrTaken.
var ErrNext = errors.New("somebody is next")

func (d *Door) taken() error { return taken(d.queue) }

func taken(queue string) error {
	return fmt.Errorf("cannot consume from queue %q: %w: %w", queue, ErrNext, transport.ErrTaken)
}

// request is a message to who stands at the door.
type request struct {
	Request  string `json:"request"`
	Priority int    `json:"priority"`
}

const requestYield = "yield"

// YieldRequest asks who stands at a door and has a lower priority to step back. It is
// of use for as long as the one who asks is fresh in line.
func YieldRequest(priority int) (transport.Message, error) {
	m, err := transport.NewMessage(requestYield, request{Request: requestYield, Priority: priority})
	m.Expires = time.Second
	return m, err
}

func (d *Door) take(m transport.Delivery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	content := transport.Content(m)
	record, ok := parse(content)
	if ok {
		d.echoed = d.echoed || d.fresh && record.Record == held && record.ID != d.known.id
		d.known.add(record)
	}
	d.seen++
	var r request
	if !ok && json.Unmarshal(content, &r) == nil && r.Request == requestYield {
		d.asked = max(d.asked, r.Priority)
		_ = m.Ack(false) // whoever comes next is not asked
	} else {
		d.inHand = append(d.inHand, letter{m.DeliveryTag, record})
	}
	d.ring()
}

// ring tells everybody who waits for a change. The caller has mu.
func (d *Door) ring() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// Changed returns a channel that is closed with the next change.
func (d *Door) Changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

// Ended is closed when nothing is delivered any more: the place is lost or given back.
func (d *Door) Ended() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ended
}

// await waits until the condition, which is asked with mu, holds.
func (d *Door) await(ctx context.Context, limit time.Duration, holds func() bool) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		d.mu.Lock()
		done, changed, ended := holds(), d.changed, d.ended
		d.mu.Unlock()
		if done {
			return nil
		}
		if transport.IsClosed(ended) {
			return d.Lost()
		}
		select {
		case <-changed:
		case <-d.channel.Conn().Blocked():
			return lock.Errorf(lock.ErrUnreachable, "queue %q: the broker serves this connection no more, because of an alarm",
				d.queue)
		case <-ctx.Done():
			return fmt.Errorf("gave up waiting for queue %q: %w", d.queue, ctx.Err())
		case <-timer.C:
			return lock.Errorf(lock.ErrUnknown, "queue %q: %w within %s", d.queue, errLate, limit)
		}
	}
}

// Deleted reports whether the place is lost because its ledger is gone. It says so once.
// Valid after Ended.
func (d *Door) Deleted() bool { return !d.channel.Closed() && d.consumer.Dropped() }

// Lost says why the place is lost. Valid after Ended.
func (d *Door) Lost() error {
	what := fmt.Sprintf("cannot consume from queue %q any more", d.queue)
	switch {
	case d.channel.Conn().Broken():
		return d.channel.Conn().BrokenError(what)
	case d.consumer.Dropped():
		return lock.Errorf(lock.ErrLost, "%s: it was deleted, or its node went down", what)
	}
	return lock.Errorf(lock.ErrLost, "%s: the broker has closed the channel", what)
}

// Over reports whether all others are known to be dead that were seen in the ledger.
func (d *Door) Over() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known.Over()
}

// Known returns what was seen of others by now.
func (d *Door) Known() History {
	d.mu.Lock()
	defer d.mu.Unlock()
	return History{held: maps.Clone(d.known.held), released: maps.Clone(d.known.released)}
}

// Wait is History.Wait.
func (d *Door) Wait(own time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known.Wait(own)
}

// Newest is History.Newest.
func (d *Door) Newest() Record {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known.Newest()
}

// Awaits reports whether the holding of this term is one that is not known to be over.
func (d *Door) Awaits(term uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for who := range d.known.held {
		if who.Term == term && !d.known.released[who] {
			return true
		}
	}
	return false
}

// Proven returns when the last proof began that the place is ours.
func (d *Door) Proven() boottime.Instant {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.proven
}

// Asked returns the highest priority of those who have asked for the place, -1 if nobody has.
func (d *Door) Asked() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

// Record records this holding after everybody else, and returns its term. write returns
// once the broker has the record, and is not tried again under the same term: a copy
// that comes late would speak for a holding that is over. When the record has come back
// through our own consumer, whoever enters later will read it: it is proof that the
// place is ours.
func (d *Door) Record(ctx context.Context, write func(Holding) error) (uint64, error) {
	for range recordTries {
		d.mu.Lock()
		who := Holding{d.known.Next(), d.known.id}
		d.mu.Unlock()
		began := boottime.Now()
		if err := write(who); err != nil {
			return 0, err
		}
		if err := d.await(ctx, deliveryTimeout, func() bool { return d.known.own >= who.Term }); err != nil {
			return 0, err
		}
		d.mu.Lock()
		last := d.known.Current()
		if last {
			d.proven = began
		}
		d.mu.Unlock()
		if last {
			return who.Term, nil
		}
	}
	return 0, lock.Errorf(lock.ErrUnknown, "others write to queue %q all the time", d.queue)
}

// Prove proves that the place is ours: it puts back all that is in hand and waits for
// the own record to be delivered again, which only the queue's live consumer gets. So
// no delivery gets so old that the broker minds (consumer_timeout). It ends with its
// answer, with the channel, or with ctx.
func (d *Door) Prove(ctx context.Context) error {
	if err := d.begin(ctx); err != nil {
		return err
	}
	defer d.end()
	began := boottime.Now()
	d.mu.Lock()
	last, own := d.last(), d.ownLetter()
	if own >= 0 {
		d.inHand, d.fresh = nil, false
	}
	d.mu.Unlock()
	if own < 0 {
		return lock.Errorf(lock.ErrUnknown, "the own record is not back from queue %q yet", d.queue)
	}
	if err := d.consumer.PutBack(last); err != nil {
		return d.Lost()
	}
	if err := d.await(ctx, deliveryTimeout, func() bool { return d.ownLetter() >= 0 }); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.proven = began
	return nil
}

func (d *Door) begin(ctx context.Context) error {
	select {
	case <-d.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *Door) end() { d.turn <- struct{}{} }

// last is the newest delivery in hand, 0 if there is none. The caller has mu.
func (d *Door) last() (tag uint64) {
	for _, l := range d.inHand {
		tag = max(tag, l.tag)
	}
	return tag
}

// ownLetter is the index of the newest own record in hand, -1 if there is none. The caller has mu.
func (d *Door) ownLetter() int {
	own := -1
	for i, l := range d.inHand {
		if l.record.Record == held && l.record.ID == d.known.id && l.record.Term == d.known.own {
			own = i
		}
	}
	return own
}

// Prune removes what says of others that they are over, and own records under which
// nothing was started, once this holding is recorded: who waits for long behind many others must not fill the ledger.
func (d *Door) Prune() {
	d.remove(func(r Record) bool {
		own := r.ID == d.known.id
		return r.Term == 0 || own && r.Term < d.known.own || !own && d.known.released[Holding{r.Term, r.ID}]
	})
}

// remove acknowledges what is not wanted. It does not wait: what comes to nothing is
// there once more for the next one.
func (d *Door) remove(unwanted func(Record) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inHand = slices.DeleteFunc(d.inHand, func(l letter) bool {
		return unwanted(l.record) && d.consumer.Ack(l.tag) == nil
	})
}

// older returns the deliveries in hand that a holder removes, and the last that it
// puts back: all of terms below its own, and copies of its own record.
func (d *Door) older() (remove []uint64, keep uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	own := d.ownLetter()
	for i, l := range d.inHand {
		if i != own && (own >= 0 && l.record.Term <= d.known.own || l.record.Term == 0) {
			remove = append(remove, l.tag)
		} else {
			keep = max(keep, l.tag)
		}
	}
	d.inHand = nil
	return remove, keep
}

// GiveBack lets the next one in, once this holder has another claim: the ledger keeps
// its record alone. The channel stays open.
func (d *Door) GiveBack(ctx context.Context) error {
	if err := d.begin(ctx); err != nil {
		return err
	}
	defer d.end()
	if err := d.consumer.Cancel(ctx); err != nil {
		return err
	}
	<-d.Ended() // of what was delivered before, none may stay behind
	if d.channel.Conn().Broken() || d.channel.Closed() {
		return d.Lost()
	}
	remove, keep := d.older()
	for _, tag := range remove {
		_ = d.consumer.Ack(tag)
	}
	if keep != 0 {
		return d.consumer.PutBack(keep)
	}
	return nil
}

// Depart gives the place back in one write with what departure says.
func (d *Door) Depart(ctx context.Context, departure transport.Departure) (transport.Presence, error) {
	if err := d.begin(ctx); err != nil {
		return transport.Unknown, err
	}
	defer d.end()
	departure.Door = d.consumer
	departure.Ack, departure.Keep = d.older()
	return d.channel.Depart(ctx, departure)
}

// Close gives the place back with everything that was read, by closing the channel.
func (d *Door) Close(ctx context.Context) error { return d.channel.Close(ctx) }
