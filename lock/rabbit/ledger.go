package rabbit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// history is what a ledger says.
type history struct {
	newest   record // the held record of the highest term; Term 0: none
	released uint64 // the highest term that is released
}

func (h *history) add(r record) {
	switch {
	case r.Record == recordReleased:
		h.released = max(h.released, r.Term)
	case r.Term >= h.newest.Term:
		h.newest = r
	}
}

// over reports whether the last holder's tree is known to be dead.
func (h *history) over() bool { return h.newest.Term != 0 && h.released >= h.newest.Term }

// wait is how long a successor has to wait if nothing more becomes known. own is
// for a holder that does not say how long it may live.
func (h *history) wait(own time.Duration) time.Duration {
	if h.newest.Term == 0 || h.newest.Handover <= 0 {
		return own
	}
	return min(time.Duration(h.newest.Handover)*time.Millisecond, longestHandover)
}

// next is the term of the successor. Terms begin at the clock in microseconds,
// so that they grow even if a ledger was lost.
func (h *history) next() uint64 {
	last := max(h.newest.Term, h.released)
	if last == 0 {
		return uint64(time.Now().UnixMicro())
	}
	return last + 1
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
	taken := false
	err := r.line.do(ctx, op{"claim", b, configure}, func(ch *amqp.Channel) error {
		// In one piece: a refusal that came between the two would close the channel
		// under the second, and the broker closes the connection for that.
		r.line.conn.out.begin(2)
		defer r.line.conn.out.end()
		if _, err := ch.QueueDeclare(b, false, false, true, true, empty()); err != nil {
			return err
		}
		err := r.get(ch)
		taken = refusesOwner(err, b)
		return err
	})
	switch {
	case err == nil:
		r.ours = true
		return nil
	case taken, r.line.conn.broken():
		return err
	case errors.Is(err, errNoQueue): // B is not looked up by declaring it
		r.ours = true
		return r.found(ctx)
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

// begin reads the first record.
func (r *reader) begin(ctx context.Context) error {
	err := r.line.do(ctx, reading(r.queue), r.get)
	if errors.Is(err, errNoQueue) {
		return r.found(ctx)
	}
	return unreadable(err)
}

// found creates the ledger.
func (r *reader) found(ctx context.Context) error {
	r.fresh, r.more = true, false
	return unreadable(r.line.found(ctx, r.queue))
}

// unreadable keeps what is wrong with a ledger from being taken for what is said
// about the slot.
func unreadable(err error) error {
	if errors.Is(err, errTaken) || errors.Is(err, errDiffers) || errors.Is(err, errNoQueue) {
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
	if ch != r.ch {
		r.ch, r.last = ch, 0
	}
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

func (r *reader) take(d amqp.Delivery) {
	r.last = max(r.last, d.DeliveryTag)
	if rec, ok := parseRecord(read(d)); ok {
		r.known.add(rec)
	}
}

// follow has the broker push what is written from now on.
func (r *reader) follow(ctx context.Context) error {
	return r.line.do(ctx, reading(r.queue), func(ch *amqp.Channel) (err error) {
		if ch != r.ch {
			r.ch, r.last = ch, 0
		}
		r.pushed, err = ch.Consume(r.queue, "", false, false, false, false, nil)
		return err
	})
}

// followers returns how many follow the ledger.
func (r *reader) followers(ctx context.Context) (n int, err error) {
	err = r.line.do(ctx, looking(r.queue), func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(r.queue, true, false, false, false, nil)
		n = q.Consumers
		return err
	})
	return n, err
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

// write puts a record into the ledger and returns once the broker has it. It
// tries again for as long as ctx and recordTimeout allow: the same record twice
// does no harm. A ledger that has gone meanwhile is made anew.
func (h *held) write(ctx context.Context, rec record) error {
	message, err := rec.message()
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	for pause := retryPause; ; pause = min(2*pause, longestRetryPause) {
		found, err := h.l.courier.deliver(bounded, h.t, message)
		switch {
		case err == nil && found == present:
			return nil
		case errors.Is(err, lock.ErrDenied):
			return err
		case err == nil && found == absent:
			maker := &line{conn: h.conn}
			// However little time is left: what the holding connection is asked is
			// not given up without cutting it.
			whole := context.WithoutCancel(ctx)
			err = maker.found(whole, h.t)
			_ = maker.end(whole)
		}
		h.l.log.Debug("record not written yet", "queue", h.t, "record", rec.Record, "error", err)
		select {
		case <-bounded.Done():
			return fmt.Errorf("cannot record %q for slot %d of %s: %w: %w", rec.Record, h.slot, h.l.id, lock.ErrUnknown, bounded.Err())
		case <-time.After(pause):
		}
	}
}
