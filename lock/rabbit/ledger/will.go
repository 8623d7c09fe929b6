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

// Will returns what ExecuteWill needs to release a holding. It contains passwords.
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

// ExecuteWill publishes that a term is over and its tree is dead, for the
// supervisor that has died. It tries the brokers in turn until ctx ends. It does
// no harm if it comes late or twice: a release counts for its own term only.
func ExecuteWill(ctx context.Context, data []byte) error {
	var last will
	if err := json.Unmarshal(data, &last); err != nil {
		return fmt.Errorf("cannot read the will: %w", err)
	}
	d := &transport.Dialer{Heartbeat: last.Heartbeat, Leaseless: true, Name: last.Name, Log: hclog.NewNullLogger()}
	for _, url := range last.URLs {
		node, err := broker.Parse(url)
		if err != nil {
			return fmt.Errorf("cannot read the will: %w", err)
		}
		d.Brokers = append(d.Brokers, node)
	}
	p := transport.NewPublisher(func(ctx context.Context) (*transport.Conn, error) { return d.Dial(ctx, "will") })
	defer p.Close()
	for pauses := transport.RetryPauses(); ; {
		err := release(ctx, p, last.Ledger, Holding{last.Term, last.Holding})
		if err == nil {
			return nil
		}
		if transport.Sleep(ctx, pauses.NextBackOff()) != nil {
			return fmt.Errorf("cannot publish the release of term %d: %w: %w", last.Term, ctx.Err(), err)
		}
	}
}
