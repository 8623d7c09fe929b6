package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock/rabbit/broker"
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
	Holding   string        `json:"holding"` // Record.ID
}

// Will returns what PrepareWill needs to release a holding. It contains passwords.
func (w *Writer) Will(ledger string, who Holding) []byte {
	last := will{Name: w.dialer.Name, Heartbeat: w.dialer.Heartbeat, Ledger: ledger, Term: who.Term, Holding: who.ID}
	for _, node := range w.dialer.Brokers {
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
	p := transport.NewPublisher(func(ctx context.Context) (*transport.Conn, error) { return d.Dial(ctx, "will") })
	p.Connect()
	return &Executor{last, p}, nil
}

// Execute publishes the release. It tries the brokers in turn until ctx ends. It does
// no harm if it comes late or twice: a release counts for its own term only.
func (e *Executor) Execute(ctx context.Context) error {
	defer e.publisher.Close()
	for pauses := transport.RetryPauses(); ; {
		err := release(ctx, e.publisher, e.will.Ledger, Holding{e.will.Term, e.will.Holding})
		if err == nil {
			return nil
		}
		if transport.Sleep(ctx, pauses.NextBackOff()) != nil {
			return fmt.Errorf("cannot publish the release of term %d: %w: %w", e.will.Term, ctx.Err(), err)
		}
	}
}
