package measure

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"berth/test/brokertest"
)

// Broker is a private RabbitMQ, with a relay to it. The zero value is not usable:
// see OpenBroker.
type Broker struct {
	*brokertest.Broker
	Relay *Relay
	PID   int // of its Erlang machine
}

// OpenBroker starts a broker. The caller calls Close.
func OpenBroker(ctx context.Context) (*Broker, error) {
	node, err := brokertest.Start(ctx)
	if err != nil {
		return nil, err
	}
	b := &Broker{Broker: node}
	// The node answers clients a moment before all of it has started.
	pid, err := b.Eval(ctx, "rabbit:await_startup(), list_to_binary(os:getpid())")
	if err == nil {
		b.PID, err = strconv.Atoi(pid)
	}
	if err == nil {
		b.Relay, err = NewRelay(b.URL())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot prepare a broker: %w", err), node.Stop())
	}
	return b, nil
}

// Close ends the relay and the broker.
func (b *Broker) Close() error { return errors.Join(b.Relay.Close(), b.Stop()) }
