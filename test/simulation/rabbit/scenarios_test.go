//go:build simulation

package rabbit

// scenario is what clients and operators do; what a broker answers is in testdata.
type scenario struct {
	name  string
	run   func(w *world)
	alone bool    // it concerns the whole broker
	nodes int     // 0: one
	since Version // it is tried with this one and later ones; 0: with all
}

var scenarios = []scenario{
	{name: "declare", run: declareQueues},
	{name: "redeclare", run: redeclare},
	{name: "refused arguments", run: refusedArguments},
	{name: "names", run: queueNames},
	{name: "exclusive", run: exclusiveQueues},
	{name: "race for an exclusive queue", run: race},
	{name: "exclusive consumer", run: exclusiveConsumer},
	{name: "end of an exclusive consumer", run: endOfExclusiveConsumer},
	{name: "priorities", run: priorities},
	{name: "turns", run: turns},
	{name: "prefetch", run: prefetch},
	{name: "requeue", run: requeue},
	{name: "requeue in part", run: requeueInPart},
	{name: "unknown tags", run: unknownTags},
	{name: "get", run: getMessages},
	{name: "cancel", run: cancelConsumers},
	{name: "cancelled by the broker", run: cancelledByBroker},
	{name: "consumer tags", run: consumerTags},
	{name: "auto-delete", run: autoDelete},
	{name: "delete", run: deleteQueues},
	{name: "probe", run: probe},
	{name: "probe in a transaction", run: probeInTransaction},
	{name: "transaction", run: transactions},
	{name: "modes", run: modes},
	{name: "length", run: lengths},
	{name: "length 0", run: lengthZero},
	{name: "reject publish", run: rejectPublish},
	{name: "message ttl", run: messageTTL},
	{name: "expiration", run: expirations},
	{name: "expires", run: expiresIdle},
	{name: "user-id", run: userIDs},
	{name: "impersonators", run: impersonators},
	{name: "direct reply-to", run: directReplies},
	{name: "permissions", run: permissionsOfUsers},
	{name: "channels", run: channels},
	{name: "closed by a refusal", run: closedByRefusal},
	{name: "closed by an operator", run: closedByOperator},
	{name: "cut", run: cutConnections},
	{name: "login", run: logins},
	{name: "mechanisms", run: mechanisms},
	{name: "silence", run: silence},
	{name: "single active consumer", run: singleActive},
	{name: "policies", run: policies},
	{name: "crash", run: crashes},
	{name: "departure", run: departure},
	{name: "quorum", run: quorumQueues},
	{name: "quorum single active", run: quorumSingleActive},
	{name: "quorum requeue", run: quorumRequeue},
	{name: "quorum limits", run: quorumLimits},
	{name: "quorum expiry", run: quorumExpiry},
	{name: "quorum policies", run: quorumPolicies},
	{name: "delayed retry", run: delayedRetry, since: V4_3},
	{name: "consumer timeout", run: consumerTimeouts, alone: true},
	{name: "alarm", run: alarms, alone: true},
	{name: "alarm of the disk", run: diskAlarms, alone: true},
	{name: "restart", run: restarts, alone: true},
	{name: "node killed", run: nodeKilled, nodes: 3},
	{name: "node hung", run: nodeHung, nodes: 3},
	{name: "cluster split", run: clusterSplit, nodes: 3},
	{name: "loss in a split", run: lossInSplit, nodes: 3},
	{name: "loss in a long split", run: lossInLongSplit, nodes: 3, since: V4_3},
}
