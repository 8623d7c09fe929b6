package transport

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	amqp "github.com/rabbitmq/amqp091-go"

	"berth/internal/boottime"
	"berth/lock"
	"berth/lock/rabbit/broker"
)

// Dialer makes the connections of one contender or administrator. Its methods may be called from several goroutines.
type Dialer struct {
	Brokers   []broker.Node  // at least one, tried in turn
	Logins    *broker.Logins // how to log in at them now
	Renewal   time.Duration  // how often open connections look for another password; zero: 5 s
	Connect   broker.Connect // below TLS; nil: over TCP
	Clock     boottime.Clock // of this process
	Heartbeat time.Duration  // asked of the broker, in whole seconds
	Leaseless bool           // no lease is counted from the heartbeat: the broker may insist on less
	Name      string         // of this process, in the broker's list of connections
	Probing   Probing        // how queues are looked for
	Users     []string       // whose messages count beside our own, see Conn.Trusts
	Unsigned  bool           // nothing is published but probes: it does not matter by which user the broker knows us
	Mark      func() string  // names a queue that nobody else has, for session.Session; nil: nothing is compared
	Log       hclog.Logger

	next  atomic.Int32                    // the node to begin with: the one that worked last, or the one after it
	only  atomic.Pointer[map[string]bool] // see Confine
	known sync.Map                        // by what name the broker knows us, by identity: see learn
}

// Confine has Dial use no other nodes than these, by their URLs, which nobody changes any more.
func (d *Dialer) Confine(to map[string]bool) { d.only.Store(&to) }

// Others returns the nodes that Dial would try, by their places in the list, without that one.
func (d *Dialer) Others(than broker.Node) []int32 {
	order, _ := d.order()
	return slices.DeleteFunc(order, func(n int32) bool { return d.Brokers[n].URL() == than.URL() })
}

// order returns the nodes to try, by their places in the list, beginning with the one that worked last, and why each of
// the others is not: in its place, so that the same failures are the same text wherever it begins.
func (d *Dialer) order() (places []int32, left []error) {
	only, begin, all := d.only.Load(), d.next.Load(), int32(len(d.Brokers))
	left = make([]error, all)
	for i := range all {
		n := (begin + i) % all
		if only == nil || (*only)[d.Brokers[n].URL()] {
			places = append(places, n)
			continue
		}
		left[n] = fmt.Errorf("%s: not tried, because it is not known to be of one cluster with the broker that "+
			"the slot was won from", d.Brokers[n].Label())
	}
	return places, left
}

// BeginWith makes the next Dial begin with the node in that place.
func (d *Dialer) BeginWith(n int32) { d.next.Store(n) }

// MoveOn makes the next Dial begin with another node than the last one did.
func (d *Dialer) MoveOn() { d.moveOn(d.next.Load()) }

// moveOn makes the next dial begin with another node than n.
func (d *Dialer) moveOn(n int32) { d.next.CompareAndSwap(n, (n+1)%int32(len(d.Brokers))) }

// Dial connects to the first node that lets us, beginning with the one that worked last. role says what the
// connection is for. If no node lets us in, the error has a refusal (lock.ErrDenied, lock.ErrUnsafe) in preference to
// lock.ErrUnreachable, because it needs somebody to change something.
func (d *Dialer) Dial(ctx context.Context, role string) (*Conn, error) {
	order, failures := d.order()
	for _, n := range order {
		node := d.Brokers[n]
		c, err := d.DialOne(ctx, node, role)
		if err == nil {
			d.next.Store(n)
			return c, nil
		}
		d.moveOn(n)
		d.Log.Debug("cannot connect", "role", role, "broker", node.Label(), "error", err)
		failures[n] = fmt.Errorf("%s: %w", node.Label(), err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, broker.Summary(ctx, failures)
}

// DialOne connects to that node. Errors: as Dial, and that of ctx.
func (d *Dialer) DialOne(ctx context.Context, node broker.Node, role string) (*Conn, error) {
	login := d.login(node)
	c, err := d.open(ctx, node, login, role)
	if err != nil {
		return nil, err
	}
	d.learn(ctx, c, login)
	if got := c.Heartbeat(); got < d.Heartbeat && !d.Leaseless {
		c.Abandon()
		return nil, lock.Errorf(lock.ErrUnsafe,
			"the broker allows a heartbeat of %s only and %s was asked for; lower --heartbeat or raise the "+
				"broker's", got, d.Heartbeat)
	}
	if d.Logins.Source().Changes() && c.renewable() {
		go d.renew(c, login)
	}
	return c, nil
}

// open connects to a node with this login, and does nothing else.
func (d *Dialer) open(ctx context.Context, node, login broker.Node, role string) (*Conn, error) {
	c := &Conn{node: node, clock: d.Clock, trusts: d.trusts, probing: d.Probing, done: make(chan struct{}),
		blocked: make(chan struct{}), calling: NewMutex(), returns: map[*Channel]<-chan amqp.Return{}}
	c.prober = c.Channel()
	var err error
	c.amqp, c.socket, err = login.Dial(ctx, d.Name+" ("+role+")", d.Heartbeat, d.Connect)
	if err != nil {
		return nil, err
	}
	c.watch()
	return c, nil
}
