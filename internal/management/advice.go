package management

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"
)

// judge says what of the facts matters to the lock.
func (i *inspection) judge() {
	i.judgePolicies()
	if i.lock.Plain { // its waiters read nothing, and more than one node is advised against elsewhere
		return
	}
	i.judgeNodes()
	if i.Ledger != nil && len(i.Nodes) != 1 {
		i.judgeLedger(*i.Ledger)
	}
	if len(i.Writers) > 0 {
		i.advise("other users that may write to the lock's queues can delay handovers: %s; give locks a vhost of their own, or "+
			"name those that berths log in as with --lock-users", quoted(i.Writers))
	}
}

func (i *inspection) advise(format string, args ...any) {
	i.Advice = append(i.Advice, fmt.Sprintf(format, args...))
}

// String names the policy with its key and value.
func (p Policy) String() string {
	kind, value := "policy", fmt.Sprint(p.Value)
	if text, ok := p.Value.(string); ok {
		value = strconv.Quote(text)
	}
	if p.Operator {
		kind = "operator policy"
	}
	if n, ok := p.Value.(float64); ok {
		value = strconv.FormatFloat(n, 'f', -1, 64)
	}
	return fmt.Sprintf("%s %q (%s %s)", kind, p.Name, p.Key, value)
}

// sentence says what a policy does, and what to do about it.
func (p Policy) sentence() string {
	verb, others := "is in force for", ""
	if p.Pattern != "" {
		verb = fmt.Sprintf("has a pattern that berth cannot read, %q; if it matches", p.Pattern)
	}
	if p.Others > 0 {
		others = fmt.Sprintf(" and %d more", p.Others)
	}
	return fmt.Sprintf("%s %s queue %q%s: %s; change its pattern, or give this lock's queues one of a higher priority", p, verb,
		p.Queue, others, p.Does)
}

// judgeNodes says what the lock depends on.
func (i *inspection) judgeNodes() {
	switch {
	case len(i.Nodes) == 1:
		i.advise("the broker is a single node, %s, on which the lock depends; on three nodes, with --queue-type quorum, it "+
			"survives the loss of any one", i.Nodes[0].Name)
	case len(i.Nodes) > 1 && !i.lock.Quorum:
		i.advise("the cluster has %d nodes, and the lock, on classic queues, depends on single ones; with --queue-type quorum, "+
			"from its first use on, it survives the loss of any one of three", len(i.Nodes))
	}
	for _, node := range i.Nodes {
		if !node.Running {
			i.advise("%s, a node of the cluster, does not run", node.Name)
		}
	}
}

// judgeLedger says which nodes of a ledger may still be lost.
func (i *inspection) judgeLedger(l Ledger) {
	away := slices.DeleteFunc(slices.Clone(l.Members), func(member string) bool { return slices.Contains(l.Online, member) })
	if spare := len(l.Online) - len(l.Members)/2 - 1; len(away) > 0 {
		left := "no other of its nodes may be lost"
		if spare < 0 {
			left = "it has no majority, and does not answer"
		} else if spare > 0 {
			left = fmt.Sprintf("%d more of its nodes may be lost", spare)
		}
		i.advise("slot 1's ledger, queue %q, is not online on %s: %s", l.Queue, strings.Join(away, " and "), left)
	}
	if len(l.Members) < min(3, len(i.Nodes)) {
		i.advise("slot 1's ledger, queue %q, is on %d of the cluster's nodes, and survives the loss of none; add one with "+
			"rabbitmq-queues add_member -p %s %s NODE", l.Queue, len(l.Members), shellescape.Quote(i.api.vhost),
			shellescape.Quote(l.Queue))
	}
}

func quoted(texts []string) string {
	var all []string
	for _, text := range texts {
		all = append(all, strconv.Quote(text))
	}
	return strings.Join(all, ", ")
}
