package ledger

import (
	"context"
	"slices"

	"berth/internal/boottime"
	"berth/lock"
	"berth/lock/rabbit/transport"
)

// recordTries bounds the attempts to be recorded after everybody else.
const recordTries = 5

// Record records this holding after everybody else, and returns its term. write returns once the broker has the
// record, and is not tried again under the same term: a copy that comes late would speak for a holding that is over.
// When the record has come back through our own consumer, whoever enters later will read it: it is proof that the
// place is ours.
func (d *Door) Record(ctx context.Context, write func(Holding) error) (uint64, error) {
	for range recordTries {
		known, began := d.View(), d.clock.Now()
		who := Holding{known.Next(), known.id}
		if err := write(who); err != nil {
			return 0, err
		}
		if err := d.await(ctx, deliveryTimeout, func() bool { return d.view.own >= who.Term }); err != nil {
			return 0, err
		}
		if d.View().Current() {
			d.proved(began)
			return who.Term, nil
		}
	}
	return 0, lock.Errorf(lock.ErrUnknown, "others write to queue %q all the time", d.queue)
}

// Prove proves that the place is ours: it puts back all that is in hand and waits for the own record to be delivered
// again, which only the queue's live consumer gets. So no delivery gets so old that the broker minds
// (consumer_timeout). It ends with its answer, with the channel, or with ctx.
func (d *Door) Prove(ctx context.Context) error {
	if err := d.begin(ctx); err != nil {
		return err
	}
	defer d.end()
	if d.copies != nil {
		return d.proveTwice(ctx)
	}
	began := d.clock.Now()
	d.mu.Lock()
	own, inHand := d.own, d.inHand
	if len(inHand) == 0 {
		own = 0 // the place is being given back
	}
	if own != 0 {
		d.inHand, d.own, d.fresh, d.doubted = nil, 0, false, 0
	}
	d.mu.Unlock()
	if own == 0 {
		return lock.Errorf(lock.ErrUnknown, "the own record is not back from queue %q yet", d.queue)
	}
	_ = d.consumer.PutBack(inHand[len(inHand)-1].tag)
	if err := d.await(ctx, deliveryTimeout, func() bool { return d.own != 0 }); err != nil {
		return err
	}
	d.compare(inHand, own)
	d.proved(began)
	return nil
}

// compare notes whether a record has not come again, though the own one has that was put back after it. A broker keeps
// their order.
func (d *Door) compare(before []letter, own uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range before {
		if l.tag == own {
			return
		}
		if l.record.Record != held || d.view.past(l.record) {
			continue
		}
		if !slices.ContainsFunc(d.inHand, func(now letter) bool { return now.record == l.record }) {
			d.view.Dropped = true
		}
	}
}

func (d *Door) proved(began boottime.Instant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.view.Proven = began
}

func (d *Door) begin(ctx context.Context) error {
	select {
	case d.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *Door) end() { <-d.busy }

// sift takes out of hand what the ledger need not keep, and returns it: what is no record, and of terms up to the own
// who is over, and, if the command has started, everybody else, with all that does not count. Higher terms stay: whoever
// is to record itself has to see them. The caller has mu.
func (d *Door) sift(started bool) (tags []uint64) {
	d.doubted = 0
	d.inHand = slices.DeleteFunc(d.inHand, func(l letter) bool {
		if !d.useless(l, started) || l.tag == d.own || d.copies != nil && l.tag == d.copies.kept {
			if l.doubt {
				d.doubted++
			}
			return false
		}
		tags = append(tags, l.tag)
		return true
	})
	return tags
}

func (d *Door) useless(l letter, started bool) bool {
	r, own := l.record, started && d.own != 0
	switch {
	case l.doubt:
		return own || d.doubted >= mostDoubted
	case r.Term == 0:
		return true
	}
	return r.Term <= d.view.own && (d.view.past(r) || own)
}

// Prune removes what says of others that they are over, and own records under which nothing was started, once this
// holding is recorded: who waits for long behind many others must not fill the ledger. It does not wait: what comes to
// nothing is there once more for the next one.
func (d *Door) Prune() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pruned = true
	for _, tag := range d.sift(false) {
		_ = d.consumer.Ack(tag)
	}
}

// empty leaves nothing in hand, and returns what a holder removes. The rest is to be put back.
func (d *Door) empty() (remove []uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	remove = d.sift(true)
	d.inHand, d.own, d.doubted, d.leaving = nil, 0, 0, true
	return remove
}

// GiveBack lets the next one in, once this holder has another claim: the ledger keeps its record alone. The channel
// stays open.
func (d *Door) GiveBack(ctx context.Context) error {
	if err := d.begin(ctx); err != nil {
		return err
	}
	defer d.end()
	if err := d.consumer.Cancel(ctx); err != nil {
		return err
	}
	<-d.View().Ended // of what was delivered before, none may stay behind
	if d.channel.Conn().Broken() || d.channel.Closed() {
		return d.Lost()
	}
	for _, tag := range d.empty() {
		_ = d.consumer.Ack(tag)
	}
	_ = d.consumer.PutBack(0)
	return d.channel.Find(ctx, d.queue) // the record is back then, unless the queue is busy
}

// Depart gives the place back in one write with what departure says.
func (d *Door) Depart(ctx context.Context, departure transport.Departure) (transport.Presence, error) {
	if err := d.begin(ctx); err != nil {
		return transport.Unknown, err
	}
	defer d.end()
	departure.Door, departure.Ack = d.consumer, d.empty()
	found, err := d.channel.Depart(ctx, departure)
	_ = d.consumer.PutBack(0) // what the queue had sent before it knew that the consumer goes
	return found, err
}
