// Package fault is what the prover breaks, and how that is healed again.
package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"berth/test/brokertest"
	"berth/test/process"
)

// Needs is what has to be there for a fault.
type Needs int

// What faults need. Where one is, all before it are.
const (
	Nothing Needs = iota - 1 // a command line of the user's, which strikes what it likes
	Client                   // a client that runs
	Link                     // and a relay between it and its broker
	Broker                   // a broker that the prover has started: it is struck, or one of its nodes
	Nodes                    // of which there are several
)

// Target is what a fault strikes.
type Target struct {
	Client interface { // nil for a fault that strikes none
		PID() int
		Signal(syscall.Signal)
	}
	Tree    func() []int // all processes of the client
	Command func() int   // the one that is its command; 0: none runs
	Link    *Relay
	Cluster *brokertest.Cluster // of one node or more
	Broker  *brokertest.Broker  // the one that is struck
}

// Fault is one way to break something.
type Fault struct {
	Name, About string
	Needs       Needs

	// Lasts: it stays broken until it is healed. Others are over when they have struck.
	Lasts bool

	strike strike
}

type (
	strike func(context.Context, Target) (heal, error)
	heal   = func(context.Context) error
)

// What came of a strike beside a fault.
var (
	ErrNothing = errors.New("there is nothing to strike")
	ErrFailed  = errors.New("the command has failed") // see Command
)

// Strike breaks something, and returns what heals it, if it lasts.
func (f Fault) Strike(ctx context.Context, t Target) (end func(context.Context) error, err error) {
	return f.strike(ctx, t)
}

// All is all faults that there are.
var All = []Fault{
	{Name: "kill", About: "KILL to a client, and not to what it has started", strike: signal(syscall.SIGKILL)},
	{Name: "term", About: "TERM to a client, and not to what it has started", strike: signal(syscall.SIGTERM)},
	{Name: "stop", About: "STOP to a client, and CONT a while later", Lasts: true, strike: stop},
	{Name: "freeze", About: "STOP to a client and all that it has started, and CONT a while later", Lasts: true,
		strike: freeze},
	{Name: "stop-command", About: "STOP to a client and to its command, and CONT a while later", Lasts: true,
		strike: stopCommand},
	{Name: "kill-child", About: "KILL to the first child of a client", strike: killChild},
	{Name: "reset", About: "the connections of a client are reset", Needs: Link, strike: reset},
	{Name: "cut", About: "nothing gets through between a client and its broker, for a while", Needs: Link, Lasts: true,
		strike: disturb(Disturbance{Out: true, In: true, Keep: true})},
	{Name: "cut-out", About: "nothing gets through from a client to its broker, for a while", Needs: Link, Lasts: true,
		strike: disturb(Disturbance{Out: true, Keep: true})},
	{Name: "cut-in", About: "nothing gets through from the broker to a client, for a while", Needs: Link, Lasts: true,
		strike: disturb(Disturbance{In: true, Keep: true})},
	{Name: "delay", About: "traffic between a client and its broker is 0.2 s late, for a while", Needs: Link, Lasts: true,
		strike: disturb(Disturbance{Out: true, In: true, Later: 200 * time.Millisecond})},
	{Name: "drip", About: "traffic between a client and its broker is slowed to 700 bytes a second, 7 at a time, for a while", Needs: Link,
		Lasts: true, strike: disturb(Disturbance{Out: true, In: true, Later: 10 * time.Millisecond, Most: 7})},
	{Name: "close", About: "the broker closes all connections, as when an operator does", Needs: Broker, strike: closeAll},
	{Name: "alarm", About: "the broker's memory alarm blocks publishers, for a while", Needs: Broker, Lasts: true,
		strike: func(ctx context.Context, t Target) (heal, error) {
			return t.Broker.ClearMemoryAlarm, t.Broker.RaiseMemoryAlarm(ctx)
		}},
	{Name: "broker-stop", About: "STOP to the broker, or one of its nodes, and CONT a while later", Needs: Broker, Lasts: true,
		strike: func(_ context.Context, t Target) (heal, error) {
			return t.after(func(context.Context) error { return t.Broker.Continue() }), t.Broker.Pause()
		}},
	{Name: "broker-kill", About: "KILL to the broker, or one of its nodes, which is started again a while later", Needs: Broker,
		Lasts: true, strike: func(_ context.Context, t Target) (heal, error) {
			return t.after(t.Broker.Restart), t.Broker.Kill9()
		}},
	{Name: "broker-restart", About: "the broker, or one of its nodes, ends cleanly and is started again", Needs: Broker,
		strike: func(ctx context.Context, t Target) (heal, error) {
			return nil, t.after(t.Broker.Restart)(ctx)
		}},
	{Name: "node-cut", About: "one node and the others do not see each other, for a while", Needs: Nodes, Lasts: true,
		strike: cutNode},
}

// Command is a fault of that name that is over when the command has ended. ErrFailed tells that it has failed.
func Command(name string, run func(context.Context) error) Fault {
	return Fault{Name: name, Needs: Nothing, strike: func(ctx context.Context, _ Target) (heal, error) {
		if err := run(ctx); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFailed, err)
		}
		return nil, nil
	}}
}

// Named returns the faults of a list such as "kill,cut", or with "all" those that need no more than that. The user's own
// are there beside All.
func Named(list string, most Needs, own ...Fault) ([]Fault, error) {
	var faults []Fault
	known := slices.Concat(All, own)
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(known, func(f Fault) bool { return f.Name == name })
		switch {
		case name == "": // none
		case name == "all":
			faults = append(faults, slices.DeleteFunc(slices.Clone(known), func(f Fault) bool { return f.Needs > most })...)
		case i < 0:
			return nil, fmt.Errorf("there is no fault %q; berth-prove list prints all", name)
		case known[i].Needs == Link && most < Link:
			return nil, fmt.Errorf("fault %s needs a proxy before the broker: give --broker start, or a URL with a port "+
				"and without TLS, such as http://127.0.0.1:2379", name)
		case known[i].Needs == Nodes && most < Nodes:
			return nil, fmt.Errorf("fault %s needs a cluster: start one with --broker start --nodes 3", name)
		case known[i].Needs > most:
			return nil, fmt.Errorf("fault %s needs a broker of the prover's own: start one with --broker start", name)
		default:
			faults = append(faults, known[i])
		}
	}
	return faults, nil
}

func signal(sig syscall.Signal) strike {
	return func(_ context.Context, t Target) (heal, error) {
		t.Client.Signal(sig)
		return nil, nil
	}
}

func stop(_ context.Context, t Target) (heal, error) {
	t.Client.Signal(syscall.SIGSTOP)
	return healedBy(func() { t.Client.Signal(syscall.SIGCONT) })
}

// freeze looks until it has twice found nothing that goes on: what is not stopped yet starts more.
func freeze(_ context.Context, t Target) (heal, error) {
	stopped := map[int]bool{}
	for calm := 0; calm < 2; calm++ {
		for _, pid := range t.Tree() {
			if !stopped[pid] {
				stopped[pid], calm = true, -1
				_ = syscall.Kill(pid, syscall.SIGSTOP)
			}
		}
	}
	return healedBy(func() {
		for _, pid := range t.Tree() {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	})
}

func killChild(_ context.Context, t Target) (heal, error) {
	children := process.Descendants(t.Client.PID())
	if len(children) == 0 || syscall.Kill(children[0], syscall.SIGKILL) != nil {
		return nil, ErrNothing
	}
	return nil, nil
}

// stopCommand has a client and its command stand still together, as a long pause of their program or their host does. What
// else the client has started goes on.
func stopCommand(_ context.Context, t Target) (heal, error) {
	pid := t.Command()
	if pid == 0 {
		return nil, ErrNothing
	}
	both := func(sig syscall.Signal) {
		_ = syscall.Kill(pid, sig) // unless it has ended
		t.Client.Signal(sig)
	}
	both(syscall.SIGSTOP)
	return healedBy(func() { both(syscall.SIGCONT) })
}

func reset(_ context.Context, t Target) (heal, error) {
	if t.Link.Reset() == 0 {
		return nil, ErrNothing
	}
	return nil, nil
}

func disturb(d Disturbance) strike {
	return func(_ context.Context, t Target) (heal, error) { return healedBy(t.Link.Disturb(d)) }
}

func healedBy(end func()) (heal, error) {
	return func(context.Context) error {
		end()
		return nil
	}, nil
}

func closeAll(ctx context.Context, t Target) (heal, error) {
	n, err := t.Broker.CloseConnections(ctx, "")
	if err == nil && n == 0 {
		err = ErrNothing
	}
	return nil, err
}

// cutNode has a minority pause, where the broker knows that (up to 4.2, without Khepri): by default both sides go on. Other
// faults find the cluster as it was.
func cutNode(ctx context.Context, t Target) (heal, error) {
	const key = "rabbit, cluster_partition_handling"
	was := map[*brokertest.Broker]string{}
	for _, node := range t.Cluster.Nodes {
		value, err := node.Eval(ctx, fmt.Sprintf("W = application:get_env(%s), application:set_env(%[1]s, pause_minority), W", key))
		if err != nil {
			return nil, err
		}
		was[node] = value
	}
	return t.after(func(ctx context.Context) error {
		if err := t.Cluster.Heal(ctx, t.Broker); err != nil {
			return err
		}
		for node, value := range was {
			_, err := node.Eval(ctx, fmt.Sprintf("case %s of {ok, V} -> application:set_env(%s, V); _ -> application:unset_env(%[2]s) end",
				value, key))
			if err != nil {
				return err
			}
		}
		return nil
	}), t.Cluster.Split(ctx, t.Broker)
}

// after has the cluster whole when something has brought the node back: all of the node has started, and all nodes see
// each other.
func (t Target) after(back heal) heal {
	return func(ctx context.Context) error {
		if err := back(ctx); err != nil {
			return err
		}
		if _, err := t.Broker.PID(ctx); err != nil {
			return err
		}
		return t.Cluster.Rejoin(ctx, t.Broker)
	}
}
