package fault_test

import (
	"context"
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/prover/fault"
	"berth/test/brokertest"
)

// connects returns a connection to a broker, and what it is told of alarms and of its end.
func connects(t *testing.T, b *brokertest.Broker) (conn *amqp.Connection, blocked chan amqp.Blocking, closed chan *amqp.Error) {
	t.Helper()
	conn, err := amqp.Dial(b.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn, conn.NotifyBlocked(make(chan amqp.Blocking, 10)), conn.NotifyClose(make(chan *amqp.Error, 1))
}

func await[T any](t *testing.T, from <-chan T, what string) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(patience):
		t.Fatalf("not within %s: %s", patience, what)
	}
	return got
}

func one(t *testing.T) fault.Target {
	t.Helper()
	b := brokertest.New(t)
	return fault.Target{Broker: b, Cluster: &brokertest.Cluster{Nodes: []*brokertest.Broker{b}}}
}

func TestBrokerIsBrokenAndWholeAgain(t *testing.T) {
	t.Parallel()
	at := one(t)

	faults, _ := fault.Named("close", fault.Broker)
	if _, err := faults[0].Strike(t.Context(), at); !errors.Is(err, fault.ErrNothing) {
		t.Errorf("close without connections: %v", err)
	}
	_, _, closed := connects(t, at.Broker)
	strike(t, "close", at)
	if err := await(t, closed, "close"); err == nil || err.Code != amqp.ConnectionForced {
		t.Errorf("closed with %v", err)
	}

	conn, blocked, closed := connects(t, at.Broker)
	heal := strike(t, "alarm", at)
	ch, err := conn.Channel()
	if err == nil {
		err = ch.PublishWithContext(t.Context(), "", "nowhere", false, false, amqp.Publishing{}) // only then is it told
	}
	if err != nil || !await(t, blocked, "blocked").Active {
		t.Errorf("under an alarm: %v", err)
	}
	heal()
	if await(t, blocked, "unblocked").Active {
		t.Error("blocked again")
	}

	strike(t, "broker-restart", at)
	if err := await(t, closed, "the end of the connection"); err == nil || err.Code != amqp.ConnectionForced {
		t.Errorf("restarted uncleanly: %v", err)
	}
	_, _, closed = connects(t, at.Broker)

	heal = strike(t, "broker-kill", at)
	if err := await(t, closed, "the end of the connection"); err == nil || err.Code == amqp.ConnectionForced {
		t.Errorf("killed: %v", err)
	}
	heal()
	heal = strike(t, "broker-stop", at)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := at.Broker.Eval(short, "ok"); err == nil {
		t.Error("stopped, it answers")
	}
	heal()
	connects(t, at.Broker)
}
