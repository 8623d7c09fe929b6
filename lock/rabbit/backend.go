// Package rabbit keeps locks in RabbitMQ, as exclusive queues. [New] returns a [lock.Backend]:
//
//	b, err := rabbit.New(rabbit.Config{URLs: []string{"amqp://user:password@host"}})
//	l := b.Lock(lock.ID{Kind: lock.Mutex, Name: "importer"})
//
// What follows is the same for every backend; see the example of package [lock].
//
// The only consumer of a slot's ledger, the durable queue T, is the successor, or the holder that has just
// started. A holder whose command has run for a moment holds the slot by its exclusive queue B. The slot exists if its
// durable queue A does. docs/protocol.md has the wire protocol.
//
// What the package does not guarantee: a holder that has heard nothing from the broker for longer than its lease (2 x
// heartbeat, [lock.Held.Lease]) may share its slot with a newcomer. The holder's own deadline is there against that.
package rabbit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/boottime"
	"berth/lock"
	"berth/lock/rabbit/administration"
	"berth/lock/rabbit/broker"
	"berth/lock/rabbit/contender"
	"berth/lock/rabbit/inspection"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/request"
	"berth/lock/rabbit/status"
	"berth/lock/rabbit/transport"
	"berth/lock/rabbit/will"
)

// DefaultHeartbeat is the heartbeat that is asked of the broker when none is configured. The lease is twice that, so
// a slot whose holder has vanished is free after 10 to 15 s, and a verification every second fits in many times.
const DefaultHeartbeat = 5 * time.Second

// Naming says how the queues of a lock are called. All who contend for a lock have to agree on it.
type Naming = names.Naming

// The namings. NamingNLA is the default.
const (
	NamingNLA = names.NLA
	NamingNAL = names.NAL
)

// Probing says how it is found out which queues exist.
type Probing = transport.Probing

// The ways to probe. ProbeByConfirm is the default.
const (
	ProbeByConfirm = transport.ByConfirm
	ProbeByTx      = transport.ByTx
	ProbeByPassive = transport.ByPassive
)

// Protocol says which parts of AMQP a lock uses. All who contend for a lock have to agree on it.
type Protocol string

const (
	// ProtocolFull has ledgers and a line, on which waiters are told when a command is dead.
	ProtocolFull Protocol = "full"
	// ProtocolPlain has queues that are declared, deleted and published to, and nothing that is consumed.
	ProtocolPlain Protocol = "plain"
)

// Source says where URLs are read again.
type Source = broker.Source

// QueueType says on how many nodes of a cluster the queues of a lock are.
type QueueType = names.QueueType

// The types. The zero value is whichever a lock has, and QueuesClassic for one that is made.
const (
	QueuesClassic = names.Classic
	QueuesQuorum  = names.Quorum
)

// Connect makes a connection below TLS; nil is TCP.
type Connect = broker.Connect

// Config says which broker keeps the locks and how this process presents itself to it.
type Config struct {
	// URLs are the nodes of one cluster, tried in turn: amqp:// or amqps:// with a host. No default; at least one.
	URLs []string

	// Source is where the URLs are read again, before each login and while a connection is open. Zero: they stay.
	Source Source

	// Naming says how the queues of a lock are called. Zero: NamingNLA.
	Naming Naming

	// Probe says how it is found out which queues exist. Zero: ProbeByConfirm.
	Probe Probing

	// Protocol says which parts of AMQP a lock uses. Zero: ProtocolFull. With ProtocolPlain nobody has a Priority or is asked by
	// Admins.
	Protocol Protocol

	// QueueType is that of the queues of locks. Zero: whichever a lock has, and QueuesClassic for one that is made.
	// ProtocolPlain has QueuesClassic.
	QueueType QueueType

	// Heartbeat is asked of the broker, in whole seconds. A broker that insists on less is refused with
	// lock.ErrUnsafe. Zero: DefaultHeartbeat.
	Heartbeat time.Duration

	// Contention is how contenders contend. With ProtocolPlain nobody has a Priority or is asked by Admins.
	Contention lock.Contention

	// Users are other users of the broker whose records and messages count: those that berths with this lock log in as.
	// Zero: the user of the URL alone, as the broker knows it.
	Users []string

	// Host and PID name this process in the broker's list of connections. Zero: os.Hostname and os.Getpid.
	Host string
	PID  int

	// Connect makes connections below TLS. No user has it: it is how a simulation has a network of its own. Zero: TCP.
	Connect Connect

	// Clock is what proofs are counted on, by who holds a slot as well. Zero: the kernel's.
	Clock boottime.Clock

	// Log takes what is worth knowing when something is looked into. Zero: nothing is logged.
	Log hclog.Logger
}

// Backend is lock.Backend on RabbitMQ.
type Backend struct {
	cfg     Config
	brokers []broker.Node // as they were in the beginning
	logins  *broker.Logins
	admins  request.Admins
	lease   time.Duration // of ProtocolPlain, for tests; 0: that of the protocol
	renewal time.Duration // see transport.Dialer.Renewal, for tests
}

var _ lock.Backend = (*Backend)(nil)

// New checks the configuration, without I/O. Its errors say what to change and never show a password.
func New(cfg Config) (*Backend, error) {
	if len(cfg.URLs) == 0 {
		return nil, errors.New("no broker given; give at least one amqp:// or amqps:// URL with --broker")
	}
	brokers, err := broker.ParseAll(cfg.URLs)
	if err != nil {
		return nil, err
	}
	b := &Backend{brokers: brokers, logins: broker.NewLogins(cfg.Source, brokers)}
	cfg.Naming = cmp.Or(cfg.Naming, NamingNLA)
	if cfg.Naming != NamingNLA && cfg.Naming != NamingNAL {
		return nil, fmt.Errorf("unknown naming of queues %q; use %q or %q", string(cfg.Naming), NamingNLA, NamingNAL)
	}
	cfg.Probe = cmp.Or(cfg.Probe, ProbeByConfirm)
	if !slices.Contains([]Probing{ProbeByConfirm, ProbeByTx, ProbeByPassive}, cfg.Probe) {
		return nil, fmt.Errorf("unknown way to probe %q; use %q, %q or %q", string(cfg.Probe), ProbeByConfirm, ProbeByTx,
			ProbeByPassive)
	}
	if cfg.Protocol = cmp.Or(cfg.Protocol, ProtocolFull); cfg.Protocol != ProtocolFull && cfg.Protocol != ProtocolPlain {
		return nil, fmt.Errorf("unknown protocol %q; use %q or %q", string(cfg.Protocol), ProtocolFull, ProtocolPlain)
	}
	cfg.Heartbeat = cmp.Or(cfg.Heartbeat, DefaultHeartbeat)
	if cfg.QueueType != "" && !slices.Contains(names.QueueTypes, cfg.QueueType) {
		return nil, fmt.Errorf("unknown type of queues %q; use %q or %q", string(cfg.QueueType), QueuesClassic, QueuesQuorum)
	}
	// AMQP 0-9-1 carries the heartbeat in seconds (connection.tune-ok). A waiter that does not know a holder's waits
	// for the longest.
	if cfg.Heartbeat < time.Second || cfg.Heartbeat%time.Second != 0 || cfg.Heartbeat > ledger.MaxLease/2 {
		return nil, fmt.Errorf("heartbeat %s is not between 1s and %.0fs in whole seconds; change --heartbeat",
			cfg.Heartbeat, (ledger.MaxLease / 2).Seconds())
	}
	b.SetAdmins(cfg.Contention.Admins)
	host, _ := os.Hostname() // one without a name is no reason to fail: it is shown to people only
	cfg.Host = cmp.Or(cfg.Host, host)
	cfg.PID = cmp.Or(cfg.PID, os.Getpid())
	cfg.Log = cmp.Or(cfg.Log, hclog.NewNullLogger())
	b.cfg = cfg
	return b, nil
}

// Lock implements lock.Backend.
func (b *Backend) Lock(id lock.ID) lock.Lock {
	return contender.New(contender.Config{
		Names: b.names(id), Plain: b.plain(), Lease: b.lease, Dialer: func() *transport.Dialer { return b.dialer(id) },
		Host: b.cfg.Host, PID: b.cfg.PID, Contention: b.cfg.Contention, Admins: &b.admins, Detected: b.warnOnce(id),
	})
}

// warnOnce returns what warns once of a lock with classic queues, of whose type the user has said nothing, where that
// matters: of what it does not survive.
func (b *Backend) warnOnce(id lock.ID) func(names.Names) {
	var once sync.Once
	return func(on names.Names) {
		if !on.Replicated() && len(b.brokers) > 1 && b.cfg.QueueType == "" {
			once.Do(func() { b.dialer(id).Log.Warn(names.OnSingleNodes) })
		}
	}
}

// SetAdmins implements lock.Backend.
func (b *Backend) SetAdmins(users []string) { b.admins.Set(users) }

// SetLogins changes how to log in at the nodes of Config.URLs: connections that are open stay, and the next ones log
// in like that. Other nodes are refused.
func (b *Backend) SetLogins(source Source, urls []string) error {
	return b.logins.Set(source, urls)
}

// Administrator implements lock.Backend.
func (b *Backend) Administrator(id lock.ID) lock.Administrator {
	d := b.dialer(id)
	d.Leaseless = true
	var delay time.Duration
	if b.plain() {
		delay = cmp.Or(b.lease, ledger.MaxLease)
	}
	return administration.New(b.names(id), d, delay)
}

// Inspector implements lock.Backend.
func (b *Backend) Inspector(id lock.ID) lock.Inspector {
	d := b.dialer(id)
	d.Leaseless = true
	return status.New(b.names(id), d, b.plain())
}

// Inspect finds out whether the broker can carry the lock; see inspection.Inspect.
func (b *Backend) Inspect(ctx context.Context, id lock.ID) (Report, error) {
	return inspection.Inspect(ctx, b.names(id), b.dialer(id), b.plain())
}

// Report is what Inspect found out about a broker.
type Report = inspection.Report

// Unseen is what a Report does not have, because AMQP does not show it.
type Unseen = inspection.Unseen

// WillName is what the package's wills are written under; see lock.NewWill.
const WillName = will.Name

// PrepareWill begins to connect for a will, in place of the supervisor that has died. It is executed when the tree is
// dead. connect is Config.Connect.
func PrepareWill(written []byte, connect Connect) (*will.Executor, error) {
	_, data := lock.OpenWill(written)
	return will.Prepare(data, connect)
}

func (b *Backend) plain() bool { return b.cfg.Protocol == ProtocolPlain }

func (b *Backend) names(id lock.ID) names.Names {
	n := names.Names{Naming: b.cfg.Naming, ID: id, Type: b.cfg.QueueType}
	if b.plain() {
		n.Type = QueuesClassic
	}
	return n
}

// dialer returns what one contender or administrator connects with. All that is logged for it is logged through Log of
// that, which names the lock.
func (b *Backend) dialer(id lock.ID) *transport.Dialer {
	return &transport.Dialer{
		Brokers:   b.brokers,
		Logins:    b.logins,
		Renewal:   b.renewal,
		Connect:   b.cfg.Connect,
		Clock:     b.cfg.Clock,
		Heartbeat: b.cfg.Heartbeat,
		Probing:   b.cfg.Probe,
		Name:      fmt.Sprintf("berth %s %s @%s pid %d", id.Kind, id.Name, b.cfg.Host, b.cfg.PID),
		Users:     b.cfg.Users,
		Unsigned:  b.plain(),
		Mark:      b.names(id).Mark,
		Log:       b.cfg.Log.With("lock", id.Name),
	}
}
