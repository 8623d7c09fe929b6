// Package rabbit is a simulated RabbitMQ: one node or three that speak AMQP 0-9-1 over any [net.Conn], with as much of it
// as berth uses. It needs no time but that of package time, and blocks on nothing but channels and pipes, so that it runs
// in a bubble of testing/synctest:
//
//	cluster := rabbit.New(rabbit.Config{Version: rabbit.V4_3, Nodes: 3, Wait: synctest.Wait})
//	defer cluster.Close()
//	config := amqp.Config{Dial: func(string, string) (net.Conn, error) { return cluster.Dial(0) }}
//	connection, err := amqp.DialConfig("amqp://guest:guest@simulated/", config)
//
// It is held to real brokers by its tests: each case is tried on both. What berth does not use is refused with 540 (not
// implemented). Nothing is stored but in memory, and no exchange exists but the default one. TLS is for a caller that
// wraps the connections.
package rabbit

import (
	"errors"
	"net"
	"time"
)

// Version is a release of RabbitMQ, as far as they differ.
type Version int

// The releases that are simulated: those that the tests start real brokers of.
const (
	V3_10 Version = 310 // 3.10.8, with Mnesia
	V4_0  Version = 400 // 4.0.5, with Mnesia
	V4_3  Version = 403 // 4.3.6, with Khepri
)

// Config says what is simulated. The zero value is one node of RabbitMQ 3.10.
type Config struct {
	Version Version // zero: V3_10
	Nodes   int     // 1 or 3; zero: 1

	// Wait returns once all other goroutines are at rest, so that no order of events depends on Go's scheduler: it is
	// synctest.Wait, which nobody else in the bubble may call then. nil, for use outside of a bubble: nothing is waited for.
	Wait func()

	// Step is how much time passes between any two events, and does nearly the same where others call synctest.Wait: the
	// order is open of what happens at one instant. Zero: none.
	Step time.Duration

	// Delay says how long the next message between two processes of the broker takes: connections, channels and queues are
	// processes. Messages of one process to another do not overtake each other. nil: none takes any time.
	Delay func() time.Duration

	Heartbeat       time.Duration // that the broker proposes, in whole seconds; zero: 60 s
	ConsumerTimeout time.Duration // for acknowledgements; zero: 30 min
	NetTick         time.Duration // after which a node that does not answer is down for the others; zero: 60 s

	// Log is told what happens, one line for each event; nil: nobody is. It is called by one goroutine at a time.
	Log func(format string, args ...any)
}

// ErrDown is returned by Dial for a node that does not listen.
var ErrDown = errors.New("connection refused: the simulated node is down")

// Dial connects to a node, which are numbered from 0, and returns the client's end of a [net.Pipe]. A node that hangs
// accepts the connection, and does not say anything. Errors: ErrDown.
func (c *Cluster) Dial(node int) (net.Conn, error) {
	client, server := net.Pipe()
	if err := c.Serve(node, server); err != nil {
		return nil, err
	}
	return client, nil
}

// Queue is what an operator sees of a queue.
type Queue struct {
	Name      string
	Quorum    bool // not classic
	Durable   bool
	Exclusive bool
	Owner     int // the connection that it is exclusive to; 0: none
	Node      int // where it is, or its leader
	Ready     int // messages
	Unacked   int // messages
	Consumers int
}

// Connection is what an operator sees of a connection.
type Connection struct {
	ID       int    // from 1, in the order in which they were made
	Name     string // connection_name of the client's properties
	User     string
	Node     int
	Channels int
	Blocked  bool // because of an alarm
}
