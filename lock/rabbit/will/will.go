// Package will releases the term of a supervisor that has died: its guard publishes that the tree is dead. It knows
// what a will says, and nothing of who holds a slot.
package will

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock"
	"berth/lock/rabbit/broker"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/line"
	"berth/lock/rabbit/transport"
)

// Name is what the wills of holdings are written under; see lock.NewWill.
const Name = "rabbit"

// Will is what a guard needs to publish a release. Written, it has the broker's passwords, and travels over the
// connection between guard and supervisor only.
type Will struct {
	URLs      []string      `json:"urls"`
	Source    broker.Source `json:"source"` // where they can be read again
	Name      string        `json:"name"`   // of the supervisor, for the list of connections
	Heartbeat time.Duration `json:"heartbeat"`
	Ledger    string        `json:"ledger"`
	Line      string        `json:"line"`
	Slot      int           `json:"slot"`

	Holding ledger.Holding `json:"holding"` // that is over
	Early   bool           `json:"early"`   // see ledger.Holding.Released
}

// Handover returns the will, to be published as this dialer connects.
func (w Will) Handover(d *transport.Dialer) lock.Handover {
	w.Name, w.Heartbeat, w.Source = d.Name, d.Heartbeat, d.Logins.Source()
	for _, node := range d.Brokers {
		w.URLs = append(w.URLs, d.Logins.Last(node).URL())
	}
	data, _ := json.Marshal(w) // strings and numbers
	return lock.Handover{Will: lock.NewWill(Name, data), Slot: w.Slot}
}

// Executor executes a will: it publishes that a term is over and its tree is dead, for the supervisor that has died.
type Executor struct {
	will      Will
	publisher *transport.Publisher
}

// Prepare reads a will and begins to connect, for it to be executed as soon as the tree is dead. Execute, which has to
// be called, ends what it began. connect is for tests; nil is TCP.
func Prepare(data []byte, connect broker.Connect) (*Executor, error) {
	var last Will
	if err := json.Unmarshal(data, &last); err != nil {
		return nil, fmt.Errorf("cannot read the will: %w", err)
	}
	d := &transport.Dialer{Heartbeat: last.Heartbeat, Leaseless: true, Name: last.Name, Connect: connect,
		Log: hclog.NewNullLogger()}
	var err error
	if d.Brokers, err = broker.ParseAll(last.URLs); err != nil {
		return nil, fmt.Errorf("cannot read the will: %w", err)
	}
	d.Logins = broker.NewLogins(last.Source, d.Brokers) // months may have passed since it was written
	p := transport.NewPublisher(d, "will")
	p.Connect()
	return &Executor{last, p}, nil
}

// Execute publishes the release, and calls a waiter if there is no successor. It tries the brokers in turn until ctx
// ends. It does no harm if it comes late or twice: a release counts for its own term only.
func (e *Executor) Execute(ctx context.Context) error {
	defer e.publisher.Close()
	for pauses := transport.RetryPauses(); ; {
		err := ledger.Release(ctx, e.publisher.Lender, e.will.Ledger, e.will.Holding, e.will.Early)
		if err == nil {
			_ = e.publisher.Lend(ctx, func(c *transport.Channel) error {
				Call(ctx, c, e.will.Ledger, e.will.Line, e.will.Slot)
				return nil
			})
			return nil
		}
		if transport.Sleep(ctx, pauses.NextBackOff()) != nil {
			return fmt.Errorf("cannot publish the release of term %d: %w: %w", e.will.Holding.Term, ctx.Err(), err)
		}
	}
}

// Call has a waiter look at a slot that was released, if it has no successor, and there is a queue to call by.
func Call(ctx context.Context, c *transport.Channel, ledger, queue string, slot int) {
	if queue == "" {
		return
	}
	if _, readers, err := c.Count(ctx, ledger); err == nil && readers == 0 {
		_, _ = c.Publish(ctx, transport.Batch{Queue: queue, Message: line.Call(slot)})
	}
}
