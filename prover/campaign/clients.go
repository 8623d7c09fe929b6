package campaign

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"berth/prover/adapter"
	"berth/prover/fault"
	"berth/prover/history"
)

// client is one that contends.
type client struct {
	*adapter.Client
	name   string
	relay  *fault.Relay // nil: there is none
	killed int64        // when the end killed it; 0: it did not
}

// replace notes which clients have ended, and starts others in their place, though not at once if they give up at once.
func (c *campaign) replace() error {
	last := ""
	c.clients = slices.DeleteFunc(c.clients, func(one *client) bool {
		if !one.Ended() || history.Now() < one.At+int64(rest) {
			return false
		}
		c.bury(one)
		last = one.name
		return true
	})
	if ended := c.started - c.Skip - len(c.clients); ended > 2*c.Clients && !c.hasRun() {
		return fmt.Errorf("%w. %d clients have ended; the last one has printed: %s", ErrNothingRan, ended, c.output(last))
	}
	if last != "" && len(c.relays) > 3*c.Clients {
		if err := c.closeRelays(); err != nil {
			return err
		}
	}
	for len(c.clients) < c.Clients && (c.Script == nil || len(c.clients) == 0 || c.hasRun()) { // by a script the first gets it
		if err := c.start(); err != nil {
			return err
		}
	}
	return nil
}

// output is the end of what a client has printed.
func (c *campaign) output(client string) string {
	const most = 1000
	text, _ := os.ReadFile(c.log(client))
	return string(text[max(0, len(text)-most):])
}

func (c *campaign) log(client string) string { return filepath.Join(c.Logs, client+".log") }

// bury notes how a client has ended.
func (c *campaign) bury(one *client) {
	until, status := one.Until()
	c.note(history.Event{Kind: history.Client, Client: one.name, At: one.At, Until: until, Status: status})
}

// start starts one more client.
func (c *campaign) start() (err error) {
	c.started++
	one := &client{name: fmt.Sprintf("c%d", c.started)}
	log, err := os.Create(c.log(one.name))
	if err != nil {
		return fmt.Errorf("cannot start a client: %w", err)
	}
	defer log.Close()
	values := adapter.Values{adapter.Witness: c.witness()}
	for name, value := range c.Values {
		values[name] = value
	}
	if c.Servers != nil {
		if one.relay, err = fault.NewRelay(c.Servers...); err != nil {
			return err
		}
		c.relays[one.name] = one.relay
		values[adapter.Broker] = one.relay.URL()
	}
	if one.Client, err = c.Adapter.With(values).Start(c.environment(one.name), log); err != nil {
		return err
	}
	c.clients = append(c.clients, one)
	return nil
}

// note adds an event, with times since the campaign began.
func (c *campaign) note(e history.Event) {
	e.At = max(0, e.At-c.began)
	if e.Until != 0 {
		e.Until = max(e.At, e.Until-c.began)
	}
	c.history = append(c.history, e)
}

// between returns a random time.
func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)))
}
