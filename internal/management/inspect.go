package management

import (
	"context"
	"errors"
	"net/http"
	"slices"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"berth/lock"
	"berth/lock/rabbit/names"
)

// Lock is what Inspect is about.
type Lock struct {
	ID      lock.ID
	Quorum  bool     // its queues are, or would be, quorum queues
	Plain   bool     // it has neither ledger nor line
	Slots   int      // how many are looked at; one at least
	Users   []string // of the broker, who may write to its queues
	Version string   // of RabbitMQ; empty: not known
	Cluster string   // by the name that the broker gives; empty: not known
}

// What Inspect asks for, each of which a user may not be permitted to see.
const (
	AboutNodes    = "nodes"
	AboutLedger   = "ledger"
	AboutPolicies = "policies"
	AboutWriters  = "writers"
)

// Report is what Inspect found out.
type Report struct {
	Host     string   // of the API, with the port
	Nodes    []Node   // of the cluster
	Ledger   *Ledger  // of slot 1, on quorum queues that are there; nil: none
	Policies []Policy // that harm the lock
	Writers  []string // other users that may write to the lock's queues, of those that the broker itself knows

	Unknown map[string]error // why something is not known

	Problems []error  // what keeps commands from running, or from running safely: lock.ErrUnsafe
	Advice   []string // what else is worth knowing, a sentence each
}

// Node is one node of a cluster.
type Node struct {
	Name    string
	Running bool
}

// Ledger says on which nodes a ledger is.
type Ledger struct {
	Queue           string
	Leader          string // "": none is known
	Members, Online []string

	arguments map[string]any
}

// Inspect asks about a lock, and changes nothing. Errors, if the API tells nothing at all: those of the context,
// ErrUnreachable, ErrDenied, ErrUnknown, and ErrUnsafe if it is another cluster's.
func Inspect(ctx context.Context, access Access, l Lock) (Report, error) {
	a, err := access.open(ctx)
	if err != nil {
		return Report{}, err
	}
	r := Report{Host: a.host, Unknown: map[string]error{}}
	if _, err := ask(a, "name", (*rabbithole.Client).Whoami); err != nil {
		return r, err
	}
	if is, err := ask(a, "name", (*rabbithole.Client).GetClusterName); err == nil && l.Cluster != "" && is.Name != l.Cluster {
		return r, lock.Errorf(lock.ErrUnsafe, "the management API at %s is of cluster %q, and the broker of %q; give "+
			"--management-url of the same cluster", a.host, is.Name, l.Cluster)
	}
	n := names.Names{Naming: names.NLA, ID: l.ID, Type: names.Classic}
	if access.NAL {
		n.Naming = names.NAL
	}
	if l.Quorum {
		n.Type = names.Quorum
	}
	i := &inspection{Report: &r, api: a, lock: l, names: n, queues: queuesOf(n, l)}
	const inside = "permissions in the virtual host, or the tag administrator"
	i.learn(AboutNodes, "the tag monitoring", i.askNodes())
	i.learn(AboutPolicies, inside, i.askPolicies())
	i.learn(AboutLedger, inside, i.askLedger())
	i.learn(AboutWriters, "the tag administrator", i.askWriters())
	i.judge()
	return r, ctx.Err()
}

// inspection is one Inspect under way.
type inspection struct {
	*Report
	api    *client
	lock   Lock
	names  names.Names
	queues []queue

	users, operators []policy // of the virtual host
}

// learn notes why something is not known, and what a user needs to see it. What the API could not answer is a problem. From RabbitMQ 4 on a virtual host is not found
// by a user that has no permissions in it.
func (i *inspection) learn(about, need string, err error) {
	if errors.Is(err, lock.ErrDenied) || errors.Is(err, answered(http.StatusNotFound)) {
		err = lock.Errorf(lock.ErrDenied, "user %q needs %s", i.api.user, need)
	}
	if err == nil {
		return
	}
	if i.Unknown[about] = err; !errors.Is(err, lock.ErrDenied) {
		i.Problems = append(i.Problems, err)
	}
}

func (i *inspection) askNodes() error {
	found, err := ask(i.api, "name,running", (*rabbithole.Client).ListNodes)
	for _, node := range found {
		i.Nodes = append(i.Nodes, Node{node.Name, node.IsRunning})
	}
	return err
}

// askLedger is asked after the policies, which show whether the user sees the virtual host: then 404 is for the queue.
func (i *inspection) askLedger() error {
	if !i.lock.Quorum {
		return nil
	}
	name := i.names.Ledger(1)
	q, err := ask(i.api, "arguments,leader,members,online", func(c *rabbithole.Client) (*rabbithole.DetailedQueueInfo, error) {
		return c.GetQueue(i.api.vhost, name)
	})
	if errors.Is(err, answered(http.StatusNotFound)) {
		return i.Unknown[AboutPolicies]
	}
	if err == nil {
		i.Ledger = &Ledger{name, q.Leader, q.Members, q.Online, q.Arguments}
	}
	return err
}

// askWriters looks who may publish to the lock's queues, or bind these to an exchange. A pattern that cannot be read here
// may match.
func (i *inspection) askWriters() error {
	found, err := ask(i.api, "user,vhost,write", (*rabbithole.Client).ListPermissions)
	for _, p := range found {
		if p.Vhost != i.api.vhost || p.Write == "" || slices.Contains(i.lock.Users, p.User) {
			continue
		}
		matches, err := reader(p.Write)
		if err != nil || matches("amq.default") || slices.ContainsFunc(i.queues, func(q queue) bool { return matches(q.name) }) {
			i.Writers = append(i.Writers, p.User)
		}
	}
	slices.Sort(i.Writers)
	return err
}

// queue is one queue that a lock has, or would have.
type queue struct {
	name   string
	letter string // A, B, T or W; K, also where that is called otherwise
}

// queuesOf returns the queues of a lock that stay, and B.
func queuesOf(n names.Names, l Lock) (all []queue) {
	for slot := 1; slot <= max(l.Slots, 1); slot++ {
		if n.ID.Kind.Administered() || n.Replicated() {
			all = append(all, queue{n.Exists(slot), "A"})
		}
		if !n.Replicated() {
			all = append(all, queue{n.Holds(slot), "B"})
		}
		if !l.Plain {
			all = append(all, queue{n.Ledger(slot), "T"})
		}
	}
	switch {
	case l.Plain:
	case n.HandsOut():
		all = append(all, queue{n.Tokens(), "K"})
	default:
		all = append(all, queue{n.Line(), "W"})
	}
	return all
}
