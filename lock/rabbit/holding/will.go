package holding

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock/rabbit/broker"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/line"
	"berth/lock/rabbit/transport"
)

// will is what a guard needs to publish the release of a term in place of its
// supervisor. It has the broker's passwords and travels over the connection
// between the two only.
type will struct {
	URLs      []string      `json:"urls"`
	Name      string        `json:"name"` // of the supervisor, for the list of connections
	Heartbeat time.Duration `json:"heartbeat"`
	Ledger    string        `json:"ledger"`
	Term      uint64        `json:"term"`
	Holding   string        `json:"holding"` // ledger.Record.ID
	Line      string        `json:"line"`
	Slot      int           `json:"slot"`
}

// will returns what PrepareWill needs to release this holding. It contains passwords.
func (h *Held) will(term uint64) []byte {
	d := h.Session.Dialer()
	last := will{
		Name: d.Name, Heartbeat: d.Heartbeat, Ledger: h.t, Term: term, Holding: h.id, Line: h.Names.Line(), Slot: h.slot,
	}
	for _, node := range d.Brokers {
		last.URLs = append(last.URLs, node.URL())
	}
	data, err := json.Marshal(last)
	if err != nil {
		return nil // cannot happen: strings and numbers
	}
	return data
}

// Executor executes a will: it publishes that a term is over and its tree is dead, for
// the supervisor that has died.
type Executor struct {
	will      will
	publisher *transport.Publisher
}

// PrepareWill reads a will and begins to connect, for it to be executed as soon as the
// tree is dead. Execute, which has to be called, ends what it began.
func PrepareWill(data []byte) (*Executor, error) {
	var last will
	if err := json.Unmarshal(data, &last); err != nil {
		return nil, fmt.Errorf("cannot read the will: %w", err)
	}
	d := &transport.Dialer{Heartbeat: last.Heartbeat, Leaseless: true, Name: last.Name, Log: hclog.NewNullLogger()}
	for _, url := range last.URLs {
		node, err := broker.Parse(url)
		if err != nil {
			return nil, fmt.Errorf("cannot read the will: %w", err)
		}
		d.Brokers = append(d.Brokers, node)
	}
	p := transport.NewPublisher(d, "will")
	p.Connect()
	return &Executor{last, p}, nil
}

// Execute publishes the release, and calls a waiter if nobody is next. It tries the
// brokers in turn until ctx ends. It does no harm if it comes late or twice: a release
// counts for its own term only.
func (e *Executor) Execute(ctx context.Context) error {
	defer e.publisher.Close()
	who := ledger.Holding{Term: e.will.Term, ID: e.will.Holding}
	for pauses := transport.RetryPauses(); ; {
		err := ledger.Release(ctx, e.publisher.Via, e.will.Ledger, who)
		if err == nil {
			_ = e.publisher.Via(ctx, func(c *transport.Channel) error {
				call(ctx, c, e.will.Ledger, e.will.Line, e.will.Slot)
				return nil
			})
			return nil
		}
		if transport.Sleep(ctx, pauses.NextBackOff()) != nil {
			return fmt.Errorf("cannot publish the release of term %d: %w: %w", e.will.Term, ctx.Err(), err)
		}
	}
}

// call has a waiter look at a slot that was released, if nobody is next for it.
func call(ctx context.Context, p *transport.Channel, ledger, queue string, slot int) {
	if _, next, err := p.Count(ctx, ledger); err == nil && next == 0 {
		_, _ = p.Deliver(ctx, queue, line.Call(slot))
	}
}
