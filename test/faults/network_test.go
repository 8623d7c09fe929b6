package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"
)

// direction is one way through a relay, as toxiproxy calls it.
type direction string

const (
	toBroker   direction = "upstream"
	fromBroker direction = "downstream"
)

// silence is a toxic that keeps back what comes, also the end, until it is taken
// away. Toxiproxy's own timeout drops the data, which TCP never does.
type silence struct{}

// Pipe reads nothing.
func (*silence) Pipe(stub *toxics.ToxicStub) { <-stub.Interrupt }

func init() { toxics.Register("silence", new(silence)) }

// relay stands between one berth and the broker and can do what networks do. It
// is a TCP relay and not a packet filter: what berth's kernel sees when packets
// get lost is for the fault with network namespaces.
type relay struct {
	t     testing.TB
	proxy *toxiproxy.Proxy
}

// newRelay listens on a free port of host, until the test ends.
func newRelay(t testing.TB, host, upstream string) *relay {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	r := &relay{t: t, proxy: toxiproxy.NewProxy(server, "", net.JoinHostPort(host, "0"), upstream)}
	// Present, but never at work: toxiproxy has every connection that passes this
	// toxic end with RST instead of FIN.
	r.add("reset_peer", toBroker, 0, `{}`)
	r.up()
	t.Cleanup(func() {
		r.clear()
		r.proxy.Stop()
	})
	return r
}

func (r *relay) addr() string { return r.proxy.Listen }

// silence keeps back everything that comes, in these directions, from now on.
func (r *relay) silence(which ...direction) {
	for _, d := range which {
		r.add("silence", d, 1, `{}`)
	}
}

// delay makes every byte arrive that much later, in both directions.
func (r *relay) delay(d time.Duration) {
	for _, way := range []direction{toBroker, fromBroker} {
		r.add("latency", way, 1, fmt.Sprintf(`{"latency": %d}`, d.Milliseconds()))
	}
}

// heal ends every fault but what has been reset.
func (r *relay) heal() {
	r.clear()
	r.up()
}

// reset resets (RST) all connections, on both sides.
func (r *relay) reset() {
	r.down()
	r.up()
}

// down resets every connection and refuses new ones until heal.
func (r *relay) down() { r.proxy.Stop() }

func (r *relay) up() {
	if r.proxy.Enabled {
		return
	}
	err := r.proxy.Start()
	// A process that is being forked has the old listener until it is executed.
	for over := time.Now().Add(patience); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(over); {
		time.Sleep(time.Millisecond)
		err = r.proxy.Start()
	}
	if err != nil {
		r.t.Errorf("the relay cannot listen: %v", err)
	}
}

// add adds a toxic; toxicity is the share of connections that it is at work on.
func (r *relay) add(toxic string, d direction, toxicity int, attributes string) {
	text := fmt.Sprintf(`{"type": %q, "name": %q, "stream": %q, "toxicity": %d, "attributes": %s}`,
		toxic, name(toxic, d), d, toxicity, attributes)
	if _, err := r.proxy.Toxics.AddToxicJson(strings.NewReader(text)); err != nil {
		r.t.Errorf("cannot add %s: %v", text, err)
	}
}

// clear takes the toxics away that are at work.
func (r *relay) clear() {
	for _, toxic := range []string{"silence", "latency"} {
		for _, d := range []direction{toBroker, fromBroker} {
			if r.proxy.Toxics.GetToxic(name(toxic, d)) == nil {
				continue
			}
			if err := r.proxy.Toxics.RemoveToxic(context.Background(), name(toxic, d)); err != nil {
				r.t.Errorf("cannot remove %s: %v", name(toxic, d), err)
			}
		}
	}
}

func name(toxic string, d direction) string { return toxic + " " + string(d) }
