package brokertest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/test/brokertest"
	"berth/test/process"
)

func TestUserMayDoInItsVhostWhatItIsPermitted(t *testing.T) {
	ctx := t.Context()
	must(t, shared.AddVhost(ctx, "v/host ü"))
	must(t, shared.AddUser(ctx, "us er", "old"))
	must(t, shared.AddUser(ctx, "us er", "p@ss/wörd"))
	must(t, shared.SetPermissions(ctx, "us er", "v/host ü", "^mine", "", ""))
	conn, err := amqp.Dial(shared.URLFor("us er", "p@ss/wörd", "v/host ü"))
	must(t, err)
	defer conn.Close()
	declare(t, channel(t, conn), "mine", false)
	_, err = channel(t, conn).QueueDeclare("yours", false, true, false, false, nil)
	if e := new(amqp.Error); !errors.As(err, &e) || e.Code != amqp.AccessRefused {
		t.Fatalf("declare without permission: %v", err)
	}
	queues, err := shared.Queues(ctx, "v/host ü")
	must(t, err)
	if len(queues) != 1 || queues[0].Name != "mine" || queues[0].Vhost != "v/host ü" {
		t.Fatalf("queues: %+v", queues)
	}
}

func TestOnlyTheNamedConnectionIsClosed(t *testing.T) {
	one, other := dial(t, shared, "one"), dial(t, shared, "other")
	closed := one.NotifyClose(make(chan *amqp.Error, 1))
	n, err := shared.CloseConnections(t.Context(), "one")
	must(t, err)
	if n != 1 {
		t.Errorf("closed %d connections", n)
	}
	if e := await(t, closed, "connection.close"); e == nil || e.Code != amqp.ConnectionForced {
		t.Errorf("closed with %v", e)
	}
	names := map[string]bool{}
	connections, err := shared.Connections(t.Context())
	must(t, err)
	for _, c := range connections {
		names[c.ClientName] = c.User == "guest" && c.Vhost == "/" && c.State == "running"
	}
	if !names["other"] || other.IsClosed() {
		t.Errorf("the other connection is not there: %+v", connections)
	}
}

func TestChannelsAndTheNodesProcessAreFound(t *testing.T) {
	conn := dial(t, shared, "with channels")
	channel(t, conn)
	channel(t, conn)
	n, err := shared.Channels(t.Context())
	must(t, err)
	if n < 2 { // those of earlier tests may still be going
		t.Errorf("%d channels, and there are 2 for certain", n)
	}
	pid, err := shared.PID(t.Context())
	must(t, err)
	if program := process.Executable(pid); !strings.Contains(program, "beam") {
		t.Errorf("process %d runs %q", pid, program)
	}
}

func TestDeletedExclusiveQueueIsGoneAndItsConsumerCancelled(t *testing.T) {
	conn := dial(t, shared, "")
	ch := channel(t, conn)
	declare(t, ch, "exclusive", false)
	q := findQueue(t, shared, "exclusive")
	if !q.Exclusive || q.Durable {
		t.Fatalf("queue: %+v", q)
	}
	cancelled := ch.NotifyCancel(make(chan string, 1))
	_, err := ch.Consume("exclusive", "tag", false, false, false, false, nil)
	must(t, err)
	must(t, shared.DeleteQueue(t.Context(), "/", "exclusive"))
	if tag := await(t, cancelled, "basic.cancel"); tag != "tag" {
		t.Errorf("cancelled %q", tag)
	}
	if conn.IsClosed() {
		t.Error("the connection was closed, too")
	}
	declare(t, channel(t, dial(t, shared, "")), "exclusive", false)
	if err := shared.DeleteQueue(t.Context(), "/", "no such queue"); err == nil {
		t.Error("deleted a queue that is not there")
	}
	if q, found, err := shared.Queue(t.Context(), "/", "no such queue"); found || err != nil {
		t.Errorf("found a queue that is not there: %+v, %v", q, err)
	}
}

func TestForgottenQueueIsGoneAndItsConsumerIsNotTold(t *testing.T) {
	ch := channel(t, dial(t, shared, ""))
	declare(t, ch, "forgotten", false)
	cancelled := ch.NotifyCancel(make(chan string, 1))
	_, err := ch.Consume("forgotten", "tag", false, false, false, false, nil)
	must(t, err)
	must(t, shared.ForgetQueue(t.Context(), "/", "forgotten"))
	declare(t, channel(t, dial(t, shared, "")), "forgotten", false)
	_, err = ch.QueueDeclarePassive("forgotten", false, false, false, false, nil)
	if e := new(amqp.Error); !errors.As(err, &e) || e.Code != amqp.ResourceLocked {
		t.Errorf("the queue is another connection's now; the first one is told %v", err)
	}
	// The channel is closed, and what it had to tell has been told.
	if tag, told := <-cancelled; told {
		t.Errorf("cancelled %q", tag)
	}
	if err := shared.ForgetQueue(t.Context(), "/", "no such queue"); err == nil {
		t.Error("forgot a queue that is not there")
	}
}

func TestFilledQueueHasTheMessagesUntilItIsPurged(t *testing.T) {
	ch := channel(t, dial(t, shared, ""))
	declare(t, ch, "filled", false)
	must(t, shared.Fill(t.Context(), "/", "filled", "junk", 3))
	d, found, err := ch.Get("filled", false)
	if err != nil || !found || string(d.Body) != "junk" || d.MessageCount != 2 {
		t.Fatalf("got %q with %d more, %v, %v", d.Body, d.MessageCount, found, err)
	}
	must(t, shared.PurgeQueue(t.Context(), "/", "filled"))
	if q := findQueue(t, shared, "filled"); q.Messages != 1 || q.Unacked != 1 {
		t.Errorf("after the purge: %+v", q)
	}
	if err := shared.PurgeQueue(t.Context(), "/", "no such queue"); err == nil {
		t.Error("purged a queue that is not there")
	}
}

// dial connects with a client-provided name for the length of the test.
func dial(t *testing.T, b *brokertest.Broker, name string) *amqp.Connection {
	t.Helper()
	conn, err := amqp.DialConfig(b.URL(), amqp.Config{Properties: amqp.Table{"connection_name": name}})
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func channel(t *testing.T, conn *amqp.Connection) *amqp.Channel {
	t.Helper()
	ch, err := conn.Channel()
	must(t, err)
	must(t, ch.Confirm(false)) // now: on a blocked connection it gets no answer
	return ch
}

// declare declares a queue, durable or else exclusive.
func declare(t *testing.T, ch *amqp.Channel, name string, durable bool) {
	t.Helper()
	_, err := ch.QueueDeclare(name, durable, false, !durable, false, nil)
	must(t, err)
}

// publish publishes a message and returns what will say whether it was acked.
func publish(t *testing.T, ch *amqp.Channel, queue string) <-chan bool {
	t.Helper()
	c, err := ch.PublishWithDeferredConfirm("", queue, false, false, amqp.Publishing{Body: []byte("x")})
	must(t, err)
	acked := make(chan bool, 1)
	go func() { acked <- c.Wait() }()
	return acked
}

// findQueue returns a queue that must be listed.
func findQueue(t *testing.T, b *brokertest.Broker, name string) brokertest.Queue {
	t.Helper()
	queues, err := b.Queues(t.Context(), "/")
	must(t, err)
	i := slices.IndexFunc(queues, func(q brokertest.Queue) bool { return q.Name == name })
	if i < 0 {
		t.Fatalf("no queue %s in %+v", name, queues)
	}
	if one, found, err := b.Queue(t.Context(), "/", name); one != queues[i] || !found || err != nil {
		t.Fatalf("looked up alone it is %+v, %v, %v, not %+v", one, found, err, queues[i])
	}
	return queues[i]
}

// await receives from c before too long.
func await[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	timer := time.NewTimer(soon)
	defer timer.Stop()
	select {
	case v := <-c:
		return v
	case <-timer.C:
		t.Fatalf("no %s within %s", what, soon)
		panic("unreachable")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
