package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/transport"
)

// finishTime is for how long a record or its release may be on its way once it is not wanted any more. A record that
// is given up half-way may be in the ledger all the same, and keeps successors for as long as its holder could live.
const finishTime = 2 * time.Second

// Finishing returns a context that ends a while after ctx does: for what is to be finished although nobody wants it.
func Finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(finishTime, cancel) })
	return longer, func() { stop(); cancel() }
}

// releasingTimeout is how long the write that ends a holding is waited for, with what has to come before it: half the
// time that a release may take, and far more than a broker needs that is well. The rest is for another connection,
// because this one may have fallen silent.
const releasingTimeout = 1250 * time.Millisecond

// Releasing returns a context for the write that ends a holding. If it ends first, the connection is cut, and the
// release is published over another one.
func Releasing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, releasingTimeout)
}

// releaseTimeout bounds the attempts to record a release.
const releaseTimeout = 2 * time.Second

// Writer writes the records of one contender. Its methods may be called from several goroutines.
type Writer struct {
	lender transport.Lender
	log    hclog.Logger

	policy sync.Once // of WarnOfPolicy

	mu   sync.Mutex       // guards what follows
	owed map[Holding]owed // releases that the broker has not taken
	told map[string]bool  // what was said of which ledger
}

// owed is a release that is to be recorded.
type owed struct {
	ledger string
	early  bool // see Holding.Released
}

// NewWriter returns a writer.
func NewWriter(lender transport.Lender, log hclog.Logger) *Writer {
	return &Writer{lender: lender, log: log, owed: map[Holding]owed{}, told: map[string]bool{}}
}

// Write puts a record into a ledger that exists, and returns once the broker has it. It tries once. Errors:
// lock.ErrDenied, lock.ErrUnknown.
func (w *Writer) Write(ctx context.Context, ledger string, rec Record) error {
	return publish(ctx, w.lender, ledger, rec.message())
}

// WriteOver is Write over this channel, and no other way.
func (w *Writer) WriteOver(ctx context.Context, c *transport.Channel, ledger string, rec Record) error {
	over := func(_ context.Context, use func(*transport.Channel) error) error { return use(c) }
	return publish(ctx, over, ledger, rec.message())
}

func publish(ctx context.Context, lender transport.Lender, ledger string, m transport.Message) error {
	found, err := lender.Publish(ctx, ledger, m)
	switch {
	case errors.Is(err, lock.ErrDenied):
		return err
	case err == nil && found == transport.Present:
		return nil
	case err == nil:
		err = errors.New("the broker has not taken it")
	}
	return fmt.Errorf("cannot record %q in queue %q: %w: %w", m.Type, ledger, lock.ErrUnknown, err)
}

// WarnOfPolicy says once why every handover takes so long, and why a holder is in doubt without a reason.
func (w *Writer) WarnOfPolicy(ledger, because string) {
	w.policy.Do(func() {
		w.log.Warn("the broker does not keep the records of the slot's holders, so handovers take the whole handover "+
			"delay, and on quorum queues commands may be ended, or none started; exempt the queue from policies that set "+
			"max-length, message-ttl, overflow, delivery-limit or delayed-retry-type (rabbitmqctl list_policies, "+
			"list_operator_policies), or make the lock anew",
			"queue", ledger, "because", because)
	})
}

// WarnOfDoubt says once of each ledger, and of each kind of them, that records were found in it that do not count.
func (w *Writer) WarnOfDoubt(ledger string, d Doubt) {
	if len(d.Users) > 0 && w.first(ledger, "users") {
		w.log.Warn("records were found that do not count, so handovers take the handover delay: if they are a berth's, name "+
			"its user with --lock-users, or upgrade it if it is of a version that does not name one; if not, a stranger "+
			"writes there: give locks a vhost of their own", "queue", ledger, "users", d.String())
	}
	if d.Terms && w.first(ledger, "terms") {
		w.log.Warn("records were found that do not count, so handovers take the handover delay: their terms are decades "+
			"ahead of this host's clock; set the clocks of all hosts", "queue", ledger)
	}
}

// WarnOfFlood says once of each ledger that others fill it.
func (w *Writer) WarnOfFlood(ledger string) {
	if w.first(ledger, "flood") {
		w.log.Warn("a stranger fills the slot's ledger, so handovers take the handover delay; find out who may publish to "+
			"the default exchange (rabbitmqctl list_permissions), and give locks a vhost of their own", "queue", ledger)
	}
}

// first reports whether this was not said of the ledger.
func (w *Writer) first(ledger, what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := ledger + " " + what
	if w.told[key] {
		return false
	}
	w.told[key] = true
	return true
}

// Create makes a ledger that somebody has deleted.
func (w *Writer) Create(ctx context.Context, ledger string) error {
	return w.lender.Lend(ctx, func(c *transport.Channel) error {
		_, err := c.Create(ctx, ledger, names.LedgerLength)
		return err
	})
}

// Release records that the tree of a holding is dead; see Holding.Released. It is not worth a long wait: successors do
// without it, after the handover delay. What could not be recorded within 2 s is owed: the error is lock.ErrUnknown, and
// FlushOwed tries again.
func (w *Writer) Release(ctx context.Context, ledger string, who Holding, early bool) error {
	bounded, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	for pauses := transport.RetryPauses(); ; {
		err := Release(bounded, w.lender, ledger, who, early)
		if err == nil || errors.Is(err, lock.ErrDenied) { // said when the slot was won
			return nil
		}
		w.log.Debug("release not recorded yet", "queue", ledger, "term", who.Term, "error", err)
		if transport.Sleep(bounded, pauses.NextBackOff()) != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.owed[who] = owed{ledger, early}
			return fmt.Errorf("cannot record the release of term %d in queue %q yet: %w: %w", who.Term, ledger,
				lock.ErrUnknown, err)
		}
	}
}

// FlushOwed records the releases that could not be recorded when they were due, once the broker answers again: every
// successor waits for them, this contender too.
func (w *Writer) FlushOwed(ctx context.Context) {
	w.mu.Lock()
	all := w.owed
	w.owed = map[Holding]owed{}
	w.mu.Unlock()
	for who, what := range all {
		w.log.Debug("recording an earlier release", "queue", what.ledger, "term", who.Term)
		_ = w.Release(ctx, what.ledger, who, what.early) // what fails is owed again
	}
}

// Release records in a ledger that a holding is over and its tree dead; see Holding.Released. A ledger that does not
// exist needs no release.
//
// Errors: as transport.Lender.Publish, and lock.ErrUnknown if the broker has not taken the record, or cannot say
// whether the ledger exists.
func Release(ctx context.Context, lender transport.Lender, ledger string, who Holding, early bool) error {
	found, err := lender.Publish(ctx, ledger, who.Released(early))
	if err != nil || found == transport.Present {
		return err
	}
	err = lender.Lend(ctx, func(c *transport.Channel) error { return c.Find(ctx, ledger) })
	switch {
	case errors.Is(err, transport.ErrNoQueue):
		return nil
	case err == nil:
		err = errors.New("the queue is there")
	}
	return lock.Errorf(lock.ErrUnknown, "the broker has not taken the release of term %d into queue %q: %s", who.Term,
		ledger, err.Error())
}
