//go:build brokers

package fault_test

import (
	"testing"

	"berth/prover/fault"
	"berth/test/brokertest"
)

// Each node sees both others before and after, and is set to do as before when it does not.
func TestNodeIsCutOffAndBack(t *testing.T) {
	t.Parallel()
	c := brokertest.NewCluster(t, 3)
	sees := func(node *brokertest.Broker) string {
		n, err := node.Eval(t.Context(), "length(nodes())")
		if err != nil {
			t.Error(err)
		}
		return n
	}
	handling := func(node *brokertest.Broker) string {
		text, err := node.Eval(t.Context(), "application:get_env(rabbit, cluster_partition_handling)")
		if err != nil {
			t.Error(err)
		}
		return text
	}
	before := handling(c.Nodes[0])
	for i, b := range c.Nodes[1:] {
		heal := strike(t, []string{"node-cut", "broker-kill"}[i], fault.Target{Cluster: c, Broker: b})
		if i == 0 && (sees(b) != "0" || sees(c.Nodes[0]) != "1") {
			t.Errorf("it sees %s, another one %s", sees(b), sees(c.Nodes[0]))
		}
		heal()
		for _, node := range c.Nodes {
			if sees(node) != "2" || handling(node) != before {
				t.Errorf("afterwards one sees %s, and is set to %s, not %s", sees(node), handling(node), before)
			}
			connects(t, node)
		}
	}
}
