package management

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"berth/lock"
	"berth/lock/rabbit/names"
)

// Policy is a key of a policy that harms a lock.
type Policy struct {
	Name     string
	Operator bool // it is an operator policy
	Key      string
	Value    any
	Queue    string // one that it is in force for
	Others   int    // how many more of the lock's are as that one

	Does    string // what comes of it
	Unsafe  bool   // that ends commands, keeps them from starting, or has two run
	Pattern string // of one of which is not known whether it matches; "": it does
}

// policy is one of either sort.
type policy struct {
	rabbithole.Policy
	operator bool
}

func (i *inspection) askPolicies() error {
	byUsers, err := ask(i.api, "", func(c *rabbithole.Client) ([]rabbithole.Policy, error) {
		return c.ListPoliciesIn(i.api.vhost)
	})
	if err != nil {
		return err
	}
	byOperators, err := ask(i.api, "", func(c *rabbithole.Client) ([]rabbithole.OperatorPolicy, error) {
		return c.ListOperatorPoliciesIn(i.api.vhost)
	})
	for _, p := range byUsers {
		i.users = append(i.users, policy{p, false})
	}
	for _, p := range byOperators {
		i.operators = append(i.operators, policy{rabbithole.Policy(p), true})
	}
	return err
}

// judgePolicies looks for what harms the lock. A queue has one policy and one operator policy, and of what both set the
// stricter one counts.
func (i *inspection) judgePolicies() {
	for _, q := range i.queues {
		i.add(q, i.users)
		i.add(q, i.operators)
	}
	for _, p := range i.Policies {
		if p.Unsafe {
			i.Problems = append(i.Problems, lock.Errorf(lock.ErrUnsafe, "%s", p.sentence()))
		} else {
			i.advise("%s", p.sentence())
		}
	}
}

// add notes what policies of one sort do to a queue. Of several of the highest priority any may be in force, and one whose
// pattern cannot be read may be.
func (i *inspection) add(q queue, policies []policy) {
	slices.SortStableFunc(policies, func(a, b policy) int { return cmp.Compare(b.Priority, a.Priority) })
	var first *policy // of those that match
	for _, p := range policies {
		if first != nil && p.Priority < first.Priority {
			return
		}
		matches, unreadable := reader(p.Pattern)
		if !fits(p, i.names.Type) || unreadable == nil && !matches(q.name) {
			continue
		}
		found := Policy{Name: p.Name, Operator: p.operator, Queue: q.name}
		if unreadable != nil {
			found.Pattern = p.Pattern
		} else if first == nil {
			first = &p
		}
		for _, key := range slices.Sorted(maps.Keys(p.Definition)) {
			found.Key, found.Value = key, p.Definition[key]
			found.Does, found.Unsafe = i.effect(q.letter, key, found.Value)
			i.merge(found)
		}
	}
}

// merge adds a policy that does something, or counts it to one that does the same to another queue.
func (i *inspection) merge(p Policy) {
	at := slices.IndexFunc(i.Policies, func(o Policy) bool {
		return o.Name == p.Name && o.Operator == p.Operator && o.Key == p.Key && o.Does == p.Does
	})
	switch {
	case p.Does == "":
	case at < 0:
		p.Unsafe = p.Unsafe && p.Pattern == ""
		i.Policies = append(i.Policies, p)
	default:
		i.Policies[at].Others++
	}
}

// foreign are keys of which one is enough for a policy not to be in force for queues of a type at all
// (rabbit_classic_queue and rabbit_quorum_queue, capabilities/0, in 3.10, 4.0 and 4.3).
var foreign = map[names.QueueType][]string{
	names.Classic: {"delivery-limit", "dead-letter-strategy", "max-age", "stream-max-segment-size-bytes",
		"initial-cluster-size"},
	names.Quorum: {"max-priority", "queue-mode", "ha-mode", "ha-params", "ha-sync-mode", "ha-promote-on-shutdown",
		"ha-promote-on-failure", "queue-master-locator", "max-age", "stream-max-segment-size-bytes", "initial-cluster-size"},
}

// fits reports whether a policy can be in force for queues of a type.
func fits(p policy, of names.QueueType) bool {
	to := slices.Contains([]string{"", "all", "queues", string(of) + "_queues"}, p.ApplyTo)
	return to && !slices.ContainsFunc(foreign[of], func(key string) bool { _, has := p.Definition[key]; return has })
}

// reader reads a pattern of the broker's, which is Perl's: Go lacks some, such as those that look ahead. The most common of
// these is for all but names that begin with "amq.", which no lock's queues do.
func reader(pattern string) (matches func(name string) bool, err error) {
	form, err := regexp.Compile(strings.Replace(pattern, `^(?!amq\.)`, "^", 1))
	if err != nil {
		return nil, err
	}
	return form.MatchString, nil
}
