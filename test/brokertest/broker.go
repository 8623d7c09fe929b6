// Package brokertest runs private RabbitMQ nodes for tests:
//
//	func TestSomething(t *testing.T) {
//		b := brokertest.New(t)
//		conn, err := amqp.Dial(b.URL())
//		...
//		n, err := b.CloseConnections(t.Context(), "") // as an operator would
//	}
//
// A package that shares one node among its tests calls Start and Stop in its
// TestMain; a check for leaked goroutines comes after Stop.
//
// A node listens on 127.0.0.1 only, has an epmd, a cookie and a data directory
// of its own, and no plugins. It takes 2 to 4 s to start. Its processes do not
// outlive the test process, however that ends; its directory (in os.TempDir)
// stays behind if the test process is killed.
//
// What needs the broker's cooperation runs as Erlang code inside the node, over
// a pair of pipes, in about a millisecond. rabbitmqctl does the same calls but
// takes a second to start. The management API would need a plugin and a listener
// for every node, shows a queue up to five seconds late, and cannot do what tests of
// failures need most: raise alarms, forget and hide queues, split clusters.
//
// The package knows RabbitMQ, and must not know berth. The node is the one of Debian's
// package, RabbitMQ 3.10 on Debian 12, or of the directory that BERTH_TEST_BROKER names;
// scripts/brokers.sh makes those of 4.0 and 4.3. A test of what differs asks Since.
package brokertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"berth/test/process"
)

const (
	// startTimeout bounds a start: 2 to 4 s on an idle machine, several times
	// that when other packages are tested and compiled beside it.
	startTimeout = 3 * time.Minute

	// stopTimeout bounds an orderly end, after which the node is killed.
	stopTimeout = 30 * time.Second

	// callTimeout bounds every other call.
	callTimeout = 20 * time.Second
)

// ErrNotRunning is returned by everything that needs a running node after Kill9
// or Stop.
var ErrNotRunning = errors.New("the broker is not running")

// Broker is one RabbitMQ node. Its methods may be called from several
// goroutines. The zero value is not usable: see New and Start.
type Broker struct {
	dir     string // everything the node writes; its HOME
	program string // that starts the node
	plugins string // a directory; "": the node's own
	version string // of RabbitMQ; known once the node has started
	port    int    // AMQP

	epmdPort, distPort int
	epmd               *process.Process // nil for a node that uses its peer's
	cookie             string

	life sync.Mutex // held while a node is started or ended
	mu   sync.Mutex // guards node
	node *node      // nil while no node runs
}

// node is one run of the broker.
type node struct {
	proc *process.Process
	ctl  *control
}

// New starts a broker for one test and ends it with the test.
func New(tb testing.TB) *Broker {
	tb.Helper()
	b, err := Start(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := b.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return b
}

// Start starts a broker and returns once it answers AMQP clients. It gives up
// when ctx ends, and after 90 s. The caller calls Stop.
func Start(ctx context.Context) (*Broker, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	b, err := prepare(nil)
	if err != nil {
		return nil, err
	}
	if b.epmd, err = b.startEpmd(ctx); err == nil {
		err = b.launch(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, b.Stop())
	}
	return b, nil
}

// URL returns the AMQP URL of the default user and the default virtual host.
func (b *Broker) URL() string { return b.URLFor("guest", "guest", "/") }

// URLFor returns the AMQP URL of a user, its password and a virtual host. It
// makes neither: see AddUser and AddVhost.
func (b *Broker) URLFor(user, password, vhost string) string {
	return (&url.URL{
		Scheme:  "amqp",
		User:    url.UserPassword(user, password),
		Host:    b.Addr(),
		Path:    "/" + vhost,
		RawPath: "/" + url.PathEscape(vhost),
	}).String()
}

// Addr returns the host and port of the AMQP listener. It stays the same for
// the life of the Broker.
func (b *Broker) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port)) }

// Dir returns the directory with everything the node writes; its logs are in
// log below it.
func (b *Broker) Dir() string { return b.dir }

// Restart ends the node in an orderly way, as an upgrade would, and starts it
// again with the same port and data. It works on a killed node, too.
func (b *Broker) Restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout+startTimeout)
	defer cancel()
	b.life.Lock()
	defer b.life.Unlock()
	if n := b.take(); n != nil {
		n.proc.Signal(syscall.SIGCONT)
		n.proc.Signal(syscall.SIGTERM)
		n.end(stopTimeout)
	}
	return b.launch(ctx)
}

// RestartInPlace stops the broker and starts it again inside its node, as
// rabbitmqctl stop_app and start_app do, and leaves it stopped for a while in
// between, 0 or more. It returns once clients are served again.
func (b *Broker) RestartInPlace(ctx context.Context, stopped time.Duration) error {
	b.life.Lock()
	defer b.life.Unlock()
	err := b.do(ctx, "stop the broker in place", "ok = rabbit:stop(), timer:sleep(%d)", stopped.Milliseconds())
	if err != nil {
		return err
	}
	return b.do(ctx, "start the broker in place", "ok = rabbit:start()")
}

// Kill9 ends the node with SIGKILL and returns once it is dead, until Restart.
func (b *Broker) Kill9() error {
	b.life.Lock()
	defer b.life.Unlock()
	n := b.take()
	if n == nil {
		return fmt.Errorf("cannot kill the broker: %w", ErrNotRunning)
	}
	n.end(0)
	return nil
}

// Pause stops the node with SIGSTOP: its connections stay open and nothing
// answers on them until Continue.
func (b *Broker) Pause() error {
	n, err := b.signal(syscall.SIGSTOP)
	if err != nil {
		return err
	}
	return process.AwaitStopped(n.proc.PID(), callTimeout)
}

// Continue lets a paused node go on. On any other it has no effect.
func (b *Broker) Continue() error {
	_, err := b.signal(syscall.SIGCONT)
	return err
}

// Stop kills the node, waits until all its processes are gone and removes its
// directory. A second Stop has no effect.
func (b *Broker) Stop() error {
	b.life.Lock()
	defer b.life.Unlock()
	if n := b.take(); n != nil {
		n.end(0)
	}
	if b.epmd != nil {
		b.epmd.End(0) // after the node, which would start another one
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	// Only b's processes have its directory as HOME. A node's helpers end by
	// themselves, a moment after it.
	if err := process.AwaitGone(ctx, b.dir); err != nil {
		return err
	}
	return os.RemoveAll(b.dir)
}

// signal sends a signal to the node's process, and returns the node.
func (b *Broker) signal(sig syscall.Signal) (*node, error) {
	n, err := b.running()
	if err == nil {
		err = n.proc.Signal(sig)
	}
	if errors.Is(err, os.ErrProcessDone) {
		err = ErrNotRunning
	}
	if err != nil {
		return nil, fmt.Errorf("cannot send %s to the broker: %w", sig, err)
	}
	return n, nil
}

// running returns the node.
func (b *Broker) running() (*node, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.node == nil {
		return nil, ErrNotRunning
	}
	return b.node, nil
}

// take returns the running node, which is the caller's to end, or nil.
func (b *Broker) take() *node {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.node
	b.node = nil
	return n
}

// launch starts a node, waits until it answers, and learns its version. The caller
// holds life, or is the only one that has the broker.
func (b *Broker) launch(ctx context.Context) error {
	n, err := b.spawnNode()
	if err != nil {
		return err
	}
	if err := awaitReady(ctx, b.Addr(), n.proc.Done()); err != nil {
		n.end(0)
		return fmt.Errorf("cannot start a broker: %w; the end of its log:\n%s", err, b.logTail())
	}
	b.mu.Lock()
	b.node = n
	b.mu.Unlock()
	return b.learnVersion(ctx)
}

// end waits for the node's process, kills it after grace, and closes its pipes.
func (n *node) end(grace time.Duration) {
	n.proc.End(grace)
	n.ctl.close()
}
