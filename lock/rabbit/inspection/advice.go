package inspection

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"al.essio.dev/pkg/shellescape"

	"berth/lock/rabbit/names"
)

// release is a version of RabbitMQ: major, minor, patch.
type release [3]int

// What is known about releases, each from the first that it applies to up to, and not including, the last. It concerns
// locks on classic queues.
var known = []struct {
	from, end release
	advice    string
}{
	// https://www.rabbitmq.com/docs/consumers#acknowledgement-timeout; from 4.3 on it concerns quorum queues only.
	{release{3, 8, 17}, release{4, 3, 0},
		"a message that is kept unacknowledged for 30 minutes closes its channel (consumer_timeout); only " +
			"batons and tokens, which give waiters their turn, are affected; berth has them delivered anew in time: " +
			"nothing to do"},
	// rabbit_amqqueue:on_node_down deletes them where Mnesia is in use.
	{release{0, 0, 0}, release{4, 2, 0},
		"in a cluster, when a node goes down or is cut off, the others free the slots of holders connected to " +
			"it, possibly while these still run" + covered},
	{release{4, 2, 0}, release{4, 3, 0},
		"in a cluster on Mnesia, when a node goes down, the others free the slots of holders connected to it; on " +
			"Khepri these slots stay locked until the node is back or removed from the cluster (rabbitmqctl " +
			"forget_cluster_node)"},
	{release{4, 3, 0}, release{1 << 30},
		"in a cluster, when a node goes down, the slots of holders connected to it stay locked until it is back " +
			"or removed from the cluster (rabbitmqctl forget_cluster_node)"},
	// Pull request 15276 and issue 9798 of rabbitmq-server.
	{release{0, 0, 0}, release{4, 1, 8}, silentDeletion + "4.1.8"},
	{release{4, 2, 0}, release{4, 2, 3}, silentDeletion + "4.2.3"},
}

// covered is what the full protocol has against a node that is cut off and goes on.
const covered = "; the handover delay covers that"

const silentDeletion = "in a cluster this release can delete a live slot's queue silently when a node comes or " +
	"goes; berth notices at its next verification and ends the command; one cause is fixed in "

// outlasting is the heartbeat from which on a holder on quorum queues outlasts it that the node which leads its ledger
// hangs: the others notice that after some 8 s, and the loss sequence takes some seconds of the lease.
const outlasting = 20 * time.Second

// leaderAdvice returns what to do about a node that hangs, to a lock on quorum queues, "" if there is nothing to do.
// configurable says whether rabbitmq.conf can have the others notice it sooner.
func leaderAdvice(heartbeat time.Duration, configurable bool) string {
	if heartbeat >= outlasting {
		return ""
	}
	text := "in a cluster, where the node that leads a slot's ledger hangs or stands still, the others notice it after some " +
		"8 s, and the slot's command is ended before; --heartbeat 20s outlasts that"
	if configurable {
		text += ", and raft.adaptive_failure_detector.poll_interval = 1000 in rabbitmq.conf makes it shorter"
	}
	return text
}

// versionAdvice returns what is worth knowing about a broker's version, to a lock with the plain protocol or the full one,
// and on quorum queues.
func versionAdvice(product, version string, plain, replicated bool) []string {
	var r release
	numbers, _ := fmt.Sscanf(version, "%d.%d.%d", &r[0], &r[1], &r[2])
	if product != "RabbitMQ" || numbers < 2 {
		return []string{fmt.Sprintf("the broker is %q %q; berth is tried with RabbitMQ 3.10 to 4.3, and nothing "+
			"is known here about this one", product, version)}
	}
	if replicated {
		return nil
	}
	var all []string
	for _, fact := range known {
		if slices.Compare(r[:], fact.from[:]) >= 0 && slices.Compare(r[:], fact.end[:]) < 0 {
			advice, isCovered := strings.CutSuffix(fact.advice, covered)
			if isCovered && !plain {
				advice = fact.advice
			}
			all = append(all, advice)
		}
	}
	return all
}

// clusterAdvice returns whether a lock survives the loss of a node of a cluster, or which one does. AMQP does not say
// how many nodes there are: a user who names several brokers says that it is a cluster.
func clusterAdvice(n names.Names, brokers int) string {
	text := "AMQP does not show whether this broker is a node of a cluster; if it is, "
	if brokers > 1 {
		text = "several brokers are named, so this is taken for a cluster: "
	}
	if n.Replicated() {
		return text + "the lock, on quorum queues, survives the loss of any one node of three; see on which nodes they are " +
			"with rabbitmq-queues quorum_status " + shellescape.Quote(n.Ledger(1))
	}
	return text + "the lock, on classic queues, depends on single nodes; with --queue-type quorum it survives the loss of any " +
		"one of three"
}
