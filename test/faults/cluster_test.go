package faults

import (
	"cmp"
	"context"
	"testing"
	"time"

	"berth/test/brokertest"
)

// split is a cluster of three nodes that loses its first. Both sides go on, as is
// RabbitMQ's default, and each gives B to any berth that asks there: only the side that
// has the ledger may run a command.
type split struct {
	name    string
	moment  bool // the nodes find each other again at once, but do not become one
	ledger  int  // the node that the lock was first used on, so that its ledger lives there
	holder  int  // the node that the holder is connected to
	waiters int  // the node that all others are connected to
	kept    bool
	lasting time.Duration
}

// long is enough for a waiter that wins B to wait for the holder's end and to
// start its command.
const long = 6 * time.Second

var splits = []split{
	{name: "cluster split, holder alone", holder: 0, ledger: 1, waiters: 1},
	{name: "cluster split, ledger and waiters alone", holder: 1, ledger: 0, waiters: 0},
	{name: "cluster split, holder and ledger alone", holder: 0, ledger: 0, waiters: 1, lasting: long},
	{name: "cluster split, waiters alone", holder: 1, ledger: 2, waiters: 0, kept: true, lasting: long},
	{name: "cluster split for a moment, holder alone", moment: true, holder: 0, ledger: 1, waiters: 1, lasting: long},
	{name: "cluster split for a moment, ledger and waiters alone", moment: true, holder: 1, ledger: 0, waiters: 0,
		lasting: long},
	{name: "cluster split for a moment, waiters alone", moment: true, holder: 1, ledger: 2, waiters: 0, lasting: long},
}

// fault: split
func TestSplitClusterDoesNotMakeCommandsOverlap(t *testing.T) {
	cluster := brokertest.NewCluster(t, 3)
	t.Logf("three nodes of RabbitMQ %s", cluster.Nodes[0].Version())
	for _, sp := range splits {
		t.Run(sp.name, func(t *testing.T) { sp.fault(cluster).tryOften(t, cluster.Nodes[sp.ledger], 3) })
	}
}

// fault is the split as a fault of a scene whose broker is the ledger's node.
func (sp split) fault(cluster *brokertest.Cluster) fault {
	alone, lasting := cluster.Nodes[0], sp.lasting
	if alone.Since(4, 2) {
		lasting = long // Khepri gives B to nobody else
	}
	return fault{
		name: sp.name, kept: sp.kept, lasting: lasting,
		stage: stage{nodes: []*brokertest.Broker{cluster.Nodes[sp.holder], cluster.Nodes[sp.waiters]}},
		strike: func(s *scene, _ *contender) func() {
			begin := cluster.Split
			if sp.moment {
				begin = cluster.Interrupt
			}
			s.must(begin(context.Background(), alone))
			return func() { s.must(cluster.Heal(context.Background(), alone)) }
		},
	}
}

// A berth that claims its slot from another broker than the first would run beside the berths that the first gives it
// to, for ever.
//
// fault: not-one-cluster
func TestTwoBrokersThatAreNoClusterDoNotMakeCommandsOverlap(t *testing.T) {
	other := brokertest.New(t)
	for _, protocol := range []string{"", plainProtocol} {
		f := fault{
			name:  "reset, and the next broker is no cluster with the first, protocol " + cmp.Or(protocol, "full"),
			stage: stage{protocol: protocol, other: other},
			strike: func(_ *scene, h *contender) func() {
				h.relay.down()
				return h.relay.heal
			},
			watched: 5 * time.Second,
		}
		t.Run(f.name, func(t *testing.T) { f.tryOften(t, rabbit, 3) })
	}
}
