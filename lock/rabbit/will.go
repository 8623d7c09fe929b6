package rabbit

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock"
)

// will is what a guard needs to publish the release of a term in place of its
// supervisor. It has the broker's passwords and travels over the connection
// between the two only.
type will struct {
	URLs      []string      `json:"urls"`
	Who       string        `json:"who"`
	Heartbeat time.Duration `json:"heartbeat"`
	Ledger    string        `json:"ledger"`
	Term      uint64        `json:"term"`
	Holding   string        `json:"holding"` // record.ID
}

// will returns nil while there is no term to release.
func (h *held) will() []byte {
	term := h.Term()
	if term == 0 {
		return nil
	}
	w := will{Who: h.l.dialer.who, Heartbeat: h.l.dialer.heartbeat, Ledger: h.t, Term: term, Holding: h.ledger.known.id}
	for _, b := range h.l.dialer.brokers {
		w.URLs = append(w.URLs, b.url)
	}
	data, err := json.Marshal(w)
	if err != nil {
		return nil // cannot happen: strings and numbers
	}
	return lock.NewWill(WillName, data)
}

// WillName is what the package's wills are written under; see lock.NewWill.
const WillName = "rabbit"

// ExecuteWill publishes that a term is over and its tree is dead, for the
// supervisor that has died. It tries the brokers in turn until ctx ends. It does
// no harm if it comes late or twice: a release counts for its own term only.
func ExecuteWill(ctx context.Context, text []byte) error {
	var w will
	_, data := lock.OpenWill(text)
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("cannot read the will: %w", err)
	}
	d := &dialer{heartbeat: w.Heartbeat, leaseless: true, who: w.Who, log: hclog.NewNullLogger()}
	for _, url := range w.URLs {
		b, err := parseBroker(url)
		if err != nil {
			return fmt.Errorf("cannot read the will: %w", err)
		}
		d.brokers = append(d.brokers, b)
	}
	c := newCourier(func(ctx context.Context) (*conn, error) { return d.dial(ctx, "will") })
	defer c.close()
	for pause := retryPause; ; pause = min(2*pause, longestRetryPause) {
		err := c.release(ctx, w.Ledger, holding{w.Term, w.Holding})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot publish the release of term %d: %w: %w", w.Term, ctx.Err(), err)
		case <-time.After(pause/2 + rand.N(pause/2)): // a whole host's guards may be at it
		}
	}
}
