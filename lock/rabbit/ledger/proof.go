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
// When the record has come back through our own consumer, every later reader will read it: it is proof that the place
// is ours.
func (r *Reader) Record(ctx context.Context, write func(Holding) error) (uint64, error) {
	for range recordTries {
		known, began := r.View(), r.clock.Now()
		who := Holding{known.Next(), known.id}
		if err := write(who); err != nil {
			return 0, err
		}
		if err := r.await(ctx, deliveryTimeout, func() bool { return r.view.own >= who.Term }); err != nil {
			return 0, err
		}
		if r.View().Current() {
			r.proved(began)
			return who.Term, nil
		}
	}
	return 0, lock.Errorf(lock.ErrUnknown, "others write to queue %q all the time", r.queue)
}

// Prove proves that the place is ours: it puts back all that is in hand and waits for the own record to be delivered
// again, which only the queue's live consumer gets. So no delivery gets so old that the broker minds
// (consumer_timeout). It ends with its answer, with the channel, or with ctx.
func (r *Reader) Prove(ctx context.Context) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	defer r.end()
	if r.copies != nil {
		return r.proveTwice(ctx)
	}
	began := r.clock.Now()
	r.mu.Lock()
	own, inHand := r.own, r.inHand
	if len(inHand) == 0 {
		own = 0 // the place is being given back
	}
	if own != 0 {
		r.inHand, r.own, r.fresh, r.doubted = nil, 0, false, 0
	}
	r.mu.Unlock()
	if own == 0 {
		return lock.Errorf(lock.ErrUnknown, "the own record is not back from queue %q yet", r.queue)
	}
	_ = r.consumer.PutBack(inHand[len(inHand)-1].tag)
	if err := r.await(ctx, deliveryTimeout, func() bool { return r.own != 0 }); err != nil {
		return err
	}
	r.compare(inHand, own)
	r.proved(began)
	return nil
}

// compare notes whether a record has not come again, though the own one has that was put back after it. A broker keeps
// their order.
func (r *Reader) compare(before []letter, own uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range before {
		if l.tag == own {
			return
		}
		if l.record.Record != held || r.view.past(l.record) {
			continue
		}
		if !slices.ContainsFunc(r.inHand, func(now letter) bool { return now.record == l.record }) {
			r.view.Dropped = true
		}
	}
}

func (r *Reader) proved(began boottime.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.view.Proven = began
}

func (r *Reader) begin(ctx context.Context) error {
	select {
	case r.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Reader) end() { <-r.busy }

// sift takes out of hand what the ledger need not keep, and returns it: what is no record, and of terms up to the own
// the holders that are over, and, if the command has started, all others, with all that does not count. Higher terms
// stay: a berth that is to record itself has to see them. The caller has mu.
func (r *Reader) sift(started bool) (tags []uint64) {
	r.doubted = 0
	r.inHand = slices.DeleteFunc(r.inHand, func(l letter) bool {
		if !r.useless(l, started) || l.tag == r.own || r.copies != nil && l.tag == r.copies.kept {
			if l.doubt {
				r.doubted++
			}
			return false
		}
		tags = append(tags, l.tag)
		return true
	})
	return tags
}

func (r *Reader) useless(l letter, started bool) bool {
	record, own := l.record, started && r.own != 0
	switch {
	case l.doubt:
		return own || r.doubted >= maxDoubted
	case record.Term == 0:
		return true
	}
	return record.Term <= r.view.own && (r.view.past(record) || own)
}

// Prune removes what says of others that they are over, and own records under which nothing was started, once this
// holding is recorded: who waits for long behind many others must not fill the ledger. It does not wait: what comes to
// nothing is there once more for the next one.
func (r *Reader) Prune() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pruned = true
	for _, tag := range r.sift(false) {
		_ = r.consumer.Ack(tag)
	}
}

// empty leaves nothing in hand, and returns what a holder removes. The rest is to be put back.
func (r *Reader) empty() (remove []uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	remove = r.sift(true)
	r.inHand, r.own, r.doubted, r.leaving = nil, 0, 0, true
	return remove
}

// GiveBack lets the next one in, once this holder has another claim: the ledger keeps its record alone. The channel
// stays open.
func (r *Reader) GiveBack(ctx context.Context) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	defer r.end()
	if err := r.consumer.Cancel(ctx); err != nil {
		return err
	}
	<-r.View().Ended // of what was delivered before, none may stay behind
	if r.channel.Conn().Broken() || r.channel.Closed() {
		return r.Lost()
	}
	for _, tag := range r.empty() {
		_ = r.consumer.Ack(tag)
	}
	_ = r.consumer.PutBack(0)
	return r.channel.Find(ctx, r.queue) // the record is back then, unless the queue is busy
}

// Leave gives the place back in one write with what batch says.
func (r *Reader) Leave(ctx context.Context, batch transport.Batch) (transport.Presence, error) {
	if err := r.begin(ctx); err != nil {
		return transport.Unknown, err
	}
	defer r.end()
	batch.Reader, batch.Ack = r.consumer, r.empty()
	found, err := r.channel.Publish(ctx, batch)
	_ = r.consumer.PutBack(0) // what the queue had sent before it knew that the consumer goes
	return found, err
}
