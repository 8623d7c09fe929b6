package rabbit

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

const (
	recordHeld     = "held"
	recordReleased = "released"

	// longestLease is the longest that berth can be configured to, 2 x
	// config.MaxHeartbeat. A holder that does not say may have it.
	longestLease = 2 * time.Minute

	// longestHandover bounds what a record can make others wait, whoever
	// wrote it.
	longestHandover = 10 * time.Minute

	// recordTimeout bounds the attempts to write one record. A slot whose
	// holder cannot be recorded is given back.
	recordTimeout = 10 * time.Second
)

// record is one message in a slot's ledger.
type record struct {
	Record string `json:"record"` // recordHeld or recordReleased
	Term   uint64 `json:"term"`

	ID string `json:"id"` // of the holding, unlike that of any other

	// Of recordHeld only: for how long after it won B a successor that finds
	// no release has to wait, and who the holder is, for people.
	Handover int64  `json:"handover_ms,omitempty"`
	Host     string `json:"host,omitempty"`
	PID      int    `json:"pid,omitempty"`
}

func (r record) message() (amqp.Publishing, error) {
	m, err := letter(r.Record, r)
	m.DeliveryMode = amqp.Persistent
	return m, err
}

// parseRecord returns false for what is no record: anybody may publish.
func parseRecord(text []byte) (record, bool) {
	var r record
	if err := json.Unmarshal(text, &r); err != nil || r.Term == 0 {
		return record{}, false
	}
	return r, r.Record == recordHeld || r.Record == recordReleased
}

// reader reads a ledger. What it has read stays unacknowledged on its channel,
// so that it is there for the next one if this one goes.
type reader struct {
	line   *line
	queue  string
	known  history
	ch     *amqp.Channel // where records are unacknowledged
	last   uint64        // delivery tag of the newest of them
	ours   bool          // B is claimed; what fails then is the ledger's fault
	more   bool          // there are records that were not read yet
	fresh  bool          // the ledger did not exist
	pushed <-chan amqp.Delivery
}

// claim declares B as this connection's own and reads the first record, in one
// round trip: the broker comes to the second only if it has done the first.
//
// errTaken says that B is somebody else's, or a foreign queue. After any other
// error it may be ours.
func (r *reader) claim(ctx context.Context, b string) error {
	taken, missing := false, false
	err := r.line.do(ctx, op{"claim", b, configure}, func(ch *amqp.Channel) error {
		// In one piece: a refusal that came between the two would close the channel
		// under the second, and the broker closes the connection for that.
		r.line.conn.out.begin(2)
		defer r.line.conn.out.end()
		if _, err := ch.QueueDeclare(b, false, false, true, true, empty()); err != nil {
			return err
		}
		err := r.get(ch)
		taken, missing = refusesOwner(err, b), misses(err, r.queue)
		return err
	})
	switch {
	case err == nil:
		r.ours = true
		return nil
	case taken, r.line.conn.broken():
		return err
	case missing:
		r.ours = true
		return r.create(ctx)
	}
	// Which of the two failed, and why, is found out one by one. To claim what
	// is ours already is allowed.
	if err := r.line.claim(ctx, b); err != nil {
		return err
	}
	r.ours = true
	return r.begin(ctx)
}

// refusesOwner reports whether this is the answer of a broker to the claim of a
// queue that somebody else has.
func refusesOwner(err error, queue string) bool {
	var answer *amqp.Error
	return errors.As(err, &answer) && answer.Code == amqp.ResourceLocked &&
		strings.HasPrefix(answer.Reason, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '"+queue+"' in vhost ")
}

// misses reports whether this is the answer of a broker for a queue that does not
// exist.
func misses(err error, queue string) bool {
	var answer *amqp.Error
	return errors.As(err, &answer) && answer.Code == amqp.NotFound && reading(queue).names(oneLine(answer.Reason))
}

// begin reads the first record.
func (r *reader) begin(ctx context.Context) error {
	err := r.line.do(ctx, reading(r.queue), r.get)
	if errors.Is(err, errNoQueue) {
		return r.create(ctx)
	}
	return unreadable(err)
}

// create creates the ledger.
func (r *reader) create(ctx context.Context) error {
	r.fresh, r.more = true, false
	return unreadable(r.line.makeLedger(ctx, r.queue))
}

// unreadable keeps what is wrong with a ledger from being taken for what is said
// about the slot.
func unreadable(err error) error {
	switch {
	case errors.Is(err, errNoQueue):
		return lock.Errorf(lock.ErrUnknown, "%s; it was deleted just now", err.Error())
	case errors.Is(err, errTaken), errors.Is(err, errDiffers):
		return lock.Errorf(lock.ErrUnknown, "%s; it is not a ledger of ours: delete it", err.Error())
	}
	return err
}

// rest reads what there is still to read.
func (r *reader) rest(ctx context.Context) error {
	for r.more {
		if err := r.line.do(ctx, reading(r.queue), r.get); err != nil {
			return unreadable(err)
		}
	}
	return nil
}

// get reads one record.
func (r *reader) get(ch *amqp.Channel) error {
	r.use(ch)
	d, found, err := ch.Get(r.queue, false)
	if err != nil {
		return err
	}
	r.more = found && d.MessageCount > 0
	if found {
		r.take(d)
	}
	return nil
}

func reading(queue string) op { return op{"read", queue, "read permission on it"} }

// use has records read on the channel. On another one nothing is in hand.
func (r *reader) use(ch *amqp.Channel) {
	if ch != r.ch {
		r.ch, r.last = ch, 0
	}
}

func (r *reader) take(d amqp.Delivery) {
	r.last = max(r.last, d.DeliveryTag)
	if rec, ok := parseRecord(read(d)); ok {
		r.known.add(rec)
	}
}

// follow has the broker push what is written from now on. The queue's name is the
// consumer's tag.
func (r *reader) follow(ctx context.Context) error {
	return r.line.do(ctx, reading(r.queue), func(ch *amqp.Channel) (err error) {
		r.use(ch)
		r.pushed, err = ch.Consume(r.queue, r.queue, false, false, false, false, nil)
		return err
	})
}

// unfollow ends follow and reads what there is, so that all of the ledger is
// known: records that come back to it together are pushed one by one.
func (r *reader) unfollow(ctx context.Context) error {
	err := r.line.do(ctx, reading(r.queue), func(ch *amqp.Channel) error {
		if ch != r.ch {
			return nil // the channel was closed, and the consumer with it
		}
		return ch.Cancel(r.queue, false)
	})
	if err != nil {
		return err
	}
	for d := range r.pushed {
		r.take(d)
	}
	r.pushed, r.more = nil, true
	return r.rest(ctx)
}

// state returns how many records are in nobody's hand, and how many follow the
// ledger. What a publisher was confirmed before is counted; what a channel has put
// back may not be yet, because the broker answers this question before it does that.
func (r *reader) state(ctx context.Context) (records, followers int, err error) {
	records, followers, err = r.line.count(ctx, r.queue)
	return records, followers, unreadable(err)
}

// forget removes what was read, which a newer record has made old. It does not
// wait: if it comes to nothing, the records are read once more.
func (r *reader) forget() {
	if r.last > 0 && !r.ch.IsClosed() {
		_ = r.ch.Ack(r.last, true)
	}
}

// putBack returns what was read to the ledger, for the next one who reads, and
// ends the consumer: it closes the channel.
func (r *reader) putBack(ctx context.Context) error {
	r.more, r.pushed = true, nil
	return r.line.end(ctx)
}
