// Command broker is a simulated RabbitMQ of one node that listens on 127.0.0.1 as a real one does. The program that has
// started it is its operator, over its standard input and output: see [Operator]. It ends when its input does.
package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/rpc"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/test/brokertest"
	"berth/test/simulation/rabbit"
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	// An outgoing connection is not to take the port while the node is down.
	ports, err := brokertest.FreePorts(1)
	if err != nil {
		return err
	}
	o := &Operator{
		cluster: rabbit.New(rabbit.Config{Version: rabbit.V4_3, Delay: delay}),
		addr:    net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0])),
	}
	server := rpc.NewServer()
	if err := errors.Join(o.listen(), server.RegisterName("Operator", o)); err != nil {
		return err
	}
	server.ServeConn(pipes{os.Stdin, os.Stdout})
	return nil
}

// delay is how long a message between two processes of the broker takes: one in ten is late, so that what is done at once
// is not done in the same order each time.
func delay() time.Duration {
	if rand.IntN(10) > 0 {
		return 0
	}
	return rand.N(3 * time.Millisecond)
}

// pipes are both ways to the operator.
type pipes struct {
	io.ReadCloser
	io.WriteCloser
}

func (p pipes) Close() error { return errors.Join(p.ReadCloser.Close(), p.WriteCloser.Close()) }

// Operator does what the operator of the broker asks for. Its methods are those of net/rpc, and return its errors.
type Operator struct {
	cluster *rabbit.Cluster
	addr    string

	mu       sync.Mutex
	listener net.Listener // nil while the node is down; guarded by mu
	served   sync.WaitGroup
}

func (o *Operator) listen() error {
	l, err := net.Listen("tcp", o.addr)
	if err != nil {
		return err
	}
	o.listener = l
	o.served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = o.cluster.Serve(0, conn)
		}
	})
	return nil
}

// Addr tells where it listens.
func (o *Operator) Addr(_ struct{}, addr *string) error {
	*addr = o.addr
	return nil
}

// Kill kills the node. Nobody connects then.
func (o *Operator) Kill(_ struct{}, _ *struct{}) error { return o.down(o.cluster.Kill) }

// Stop stops it in good order.
func (o *Operator) Stop(_ struct{}, _ *struct{}) error { return o.down(o.cluster.Stop) }

// down has the node go down, unless it is.
func (o *Operator) down(how func(node int)) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.listener == nil {
		return nil
	}
	how(0)
	err := o.listener.Close()
	o.served.Wait()
	o.listener = nil
	return err
}

// Start starts the node, which is down.
func (o *Operator) Start(_ struct{}, _ *struct{}) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cluster.Start(0)
	return o.listen()
}

// Hang has the node stand still, or go on.
func (o *Operator) Hang(on bool, _ *struct{}) error {
	if on {
		o.cluster.Hang(0)
	} else {
		o.cluster.Resume(0)
	}
	return nil
}

// Alarm raises the memory alarm, or clears it.
func (o *Operator) Alarm(on bool, _ *struct{}) error {
	o.cluster.Alarm(on)
	return nil
}

// SetUser makes a user, or changes a password.
func (o *Operator) SetUser(u [2]string, _ *struct{}) error {
	o.cluster.SetUser(u[0], u[1])
	return nil
}

// SetPermissions sets a user's.
func (o *Operator) SetPermissions(p [4]string, _ *struct{}) error {
	return o.cluster.SetPermissions(p[0], p[1], p[2], p[3])
}

// Connections lists those of clients.
func (o *Operator) Connections(_ struct{}, all *[]brokertest.Connection) error {
	for _, c := range o.cluster.Connections() {
		*all = append(*all, brokertest.Connection{ClientName: c.Name, User: c.User})
	}
	return nil
}

// CloseConnections closes those whose name has the text.
func (o *Operator) CloseConnections(text string, n *int) error {
	for _, c := range o.cluster.Connections() {
		if strings.Contains(c.Name, text) && o.cluster.CloseConnection(c.ID, "closed by an operator") {
			*n++
		}
	}
	return nil
}

// Queues lists the queues, or one.
func (o *Operator) Queues(name string, all *[]brokertest.Queue) error {
	queues := o.cluster.Queues
	if name != "" {
		queues = func() (one []rabbit.Queue) {
			if q, found := o.cluster.Queue(name); found {
				one = append(one, q)
			}
			return one
		}
	}
	for _, q := range queues() {
		*all = append(*all, brokertest.Queue{Name: q.Name, Durable: q.Durable, Exclusive: q.Exclusive,
			Messages: q.Ready + q.Unacked, Unacked: q.Unacked, Consumers: q.Consumers})
	}
	return nil
}

// RemoveQueue deletes a queue, and tells its consumers.
func (o *Operator) RemoveQueue(name string, found *bool) error {
	*found = o.cluster.RemoveQueue(name)
	return nil
}

// LoseQueue deletes a queue, and tells nobody.
func (o *Operator) LoseQueue(name string, found *bool) error {
	*found = o.cluster.LoseQueue(name)
	return nil
}

// PurgeQueue empties a queue.
func (o *Operator) PurgeQueue(name string, found *bool) error {
	*found = o.cluster.PurgeQueue(name)
	return nil
}
