package rabbit_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"testing"

	"berth/lock"
	"berth/lock/conformance"
	"berth/lock/rabbit"
	"berth/test/brokertest"
	"berth/test/relay"
)

// A user who rents a broker has three nodes behind one name. Some of these brokers do not compare the types of queues
// (quorum_queue.property_equivalence.relaxed_checks_on_redeclaration), and make quorum queues where none is named.
//
// These tests need BERTH_TEST_NODES=3.

func TestKindsConformBehindOneAddressOfThreeNodes(t *testing.T) {
	eachCheck(t, func(t *testing.T) {
		address := front(t, cluster.Nodes)
		urls := func() []string { return []string{address} }
		for _, h := range []conformance.Harness{
			harness(urls, lock.Semaphore, rabbit.NamingNLA, "", "%[1]s-%[2]d-A"),
			harness(urls, lock.TokenSemaphore, rabbit.NamingNLA, "", "%[1]s-K-%[2]d-A"),
			harness(urls, lock.TokenSemaphore, rabbit.NamingNLA, rabbit.QueuesQuorum, "%[1]s-Q-%[2]d-A"),
		} {
			conformance.Run(t, h)
		}
	})
}

// The address leads to another node each time.
func TestResetHolderComesBackThroughAnotherOfThreeNodes(t *testing.T) {
	eachCheck(t, func(t *testing.T) {
		reset := func(t *testing.T, id lock.ID) {
			h := startedAs(t, at(front(t, cluster.Nodes)), id)
			must(t, proven(within(t), h))
			n, err := shared.CloseConnections(within(t), id.Name+" @")
			must(t, err)
			if n == 0 {
				t.Fatal("the holder has no connection")
			}
			succeeds(t, "the slot is held again", func() error { return proven(within(t), h) })
			must(t, h.Release(within(t)))
		}
		eachKind(t, reset)
		t.Run("on quorum queues", func(t *testing.T) { reset(t, replicated(t, 1)) })
	})
}

func TestHolderBehindOneAddressOutlivesOneOfThreeNodes(t *testing.T) {
	eachCheck(t, func(t *testing.T) {
		set(t, "default_queue_type", "rabbit_quorum_queue")
		id := replicated(t, 1)
		last := cluster.Nodes[2]
		h := startedAs(t, at(front(t, []*brokertest.Broker{last, cluster.Nodes[0], cluster.Nodes[1]})), id)
		must(t, proven(within(t), h))
		must(t, last.Kill9())
		defer func() { must(t, last.Restart(within(t))) }()
		succeeds(t, "the slot is proven through another node", func() error { return proven(within(t), h) })
		must(t, h.Release(within(t)))
	})
}

// eachCheck tests with types of queues that are compared, and that are not.
func eachCheck(t *testing.T, test func(t *testing.T)) {
	if len(cluster.Nodes) < 3 {
		t.Skip("it takes three nodes, see BERTH_TEST_NODES")
	}
	for _, relaxed := range []bool{false, true} {
		t.Run(fmt.Sprintf("relaxed %t", relaxed), func(t *testing.T) {
			set(t, "quorum_relaxed_checks_on_redeclaration", fmt.Sprint(relaxed))
			test(t)
		})
	}
}

// set sets a setting of all nodes, until the test ends.
func set(t *testing.T, key, value string) {
	t.Helper()
	for _, node := range cluster.Nodes {
		_, err := node.Eval(within(t), fmt.Sprintf("ok = application:set_env(rabbit, %s, %s).", key, value))
		must(t, err)
		t.Cleanup(func() {
			_, err := node.Eval(within(t), fmt.Sprintf("ok = application:unset_env(rabbit, %s).", key))
			must(t, err)
		})
	}
}

// front returns the URL of one address, behind which these nodes take connections in turn.
func front(t *testing.T, nodes []*brokertest.Broker) string {
	t.Helper()
	var all []string
	for _, node := range nodes {
		all = append(all, node.Addr())
	}
	r, err := relay.New(relay.Config{
		To: all[0], Others: slices.Clone(all[1:]),
		Pass: func(_ context.Context, to, from net.Conn, _ bool) { _, _ = io.Copy(to, from) },
	})
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	server, err := url.Parse(nodes[0].URL())
	must(t, err)
	return r.URL(server)
}
