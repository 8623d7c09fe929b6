// Package inspection finds out whether a broker can carry a lock, without disturbing those that use it.
package inspection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"al.essio.dev/pkg/shellescape"

	"berth/lock"
	"berth/lock/rabbit/broker"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/transport"
)

// Report is what Inspect found out about a broker.
type Report struct {
	// Broker is the node that answered: its URL without user and password.
	Broker string

	// What the broker says about itself (connection.start); empty where it does not.
	Product, Version, Platform, Cluster string

	// TLS describes the connection's; nil: it has none.
	TLS *broker.Secured

	// Login is the mechanism by which berth is logged in: PLAIN or EXTERNAL.
	Login string

	// User is the name by which the broker knows berth, "" if that is not known.
	User string

	// Heartbeat is the negotiated one.
	Heartbeat time.Duration

	// Slots is how many slots an administered lock has, 0 if it does not exist; -1 for a mutex, which has no number,
	// and where it is not known.
	Slots int

	// QueueType is that of the queues of a lock that exists, "" of one that does not.
	QueueType names.QueueType

	// Problems keep contenders from working, or from working safely. Each is a lock.ErrDenied, lock.ErrUnsafe or
	// lock.ErrUnknown.
	Problems []error

	// Runner is a command line that permits to hold the lock and to look at it, Administrator one that permits to make it
	// and to remove it too, "" for a lock that is never made. Each replaces the user's present permissions.
	Runner, Administrator string

	// Advice is what else is worth knowing, a sentence each: what works less well, and what to expect of this
	// version.
	Advice []string

	// Unseen is what to look at elsewhere, because AMQP does not show it.
	Unseen Unseen
}

// Unseen has a sentence for each thing that AMQP does not show, "" where it does not matter to the lock.
type Unseen struct {
	Nodes    string // on which nodes of a cluster the lock is
	Policies string // which are in force for its queues
	Writers  string // who else may write to them
}

// Inspect finds out whether the broker can carry the lock, without disturbing its users: it asks for permissions with
// requests that the broker always turns down for another reason, and tries the behaviour of queues in slot 0, which no
// lock has, exclusively or for a minute, so that nothing stays behind. The dialer is nobody else's.
//
// What AMQP does not show, policies above all, is named in the report's Unseen. Errors: lock.ErrUnreachable,
// lock.ErrDenied and lock.ErrUnsafe if no node lets us in; lock.ErrUnreachable if the connection is lost on the way,
// with the report as far as it got.
//
// With plain, the lock has neither ledger nor line, and nothing is consumed.
func Inspect(ctx context.Context, n names.Names, d *transport.Dialer, plain bool) (Report, error) {
	report := Report{Slots: -1}
	if err := n.ID.Check(); err != nil {
		return report, err
	}
	named := len(d.Brokers)
	all, nodes, failures := everyNode(ctx, d)
	if len(all) == 0 {
		return report, broker.Summary(ctx, failures)
	}
	for _, c := range all {
		defer c.End(ctx)
	}
	for _, failure := range failures {
		report.Advice = append(report.Advice, "one of the nodes cannot be used now: "+failure.Error())
	}
	d.Brokers = nodes[:1]
	c := all[0]
	i := &inspection{
		Report: &report, names: n, conn: c, others: all[1:], channel: c.Channel(),
		publisher: transport.NewPublisher(d, "check"), plain: plain, probing: d.Probing, known: d.UserOf, vhost: nodes[0].Vhost(),
	}
	defer i.publisher.Close()
	i.Broker, i.Heartbeat = c.Label(), c.Heartbeat()
	i.TLS, i.Login = c.Secured(), c.Node().Login()
	i.Product, i.Version = c.Says("product"), c.Says("version")
	i.Platform, i.Cluster = c.Says("platform"), c.Says("cluster_name")
	i.detectType(ctx)
	i.permit()
	i.trialB, i.trialT = i.names.Queue(0, "B"), i.names.Queue(0, "T")
	defer i.removeTrial(ctx)
	for _, step := range []func(context.Context) error{
		i.askPermissions, i.publish, i.tryQueues, i.lookForForeign, i.lookForLedger,
	} {
		if err := step(ctx); err != nil {
			return report, err
		}
	}
	if n.ID.Kind.Administered() {
		i.count(ctx)
	}
	i.Advice = append(i.Advice, versionAdvice(i.Product, i.Version, plain, i.names.Replicated())...)
	first, second := i.names.Ledger(1), i.names.Waiters()
	if plain {
		first, second = i.names.Exists(1), i.names.Holds(1)
	} else {
		i.Unseen.Nodes = clusterAdvice(i.names, named)
		i.Unseen.Writers = fmt.Sprintf("other users that may publish in the virtual host can delay handovers, and AMQP does not "+
			"show them: see rabbitmqctl list_permissions -p %s, and give locks a vhost of their own", shellescape.Quote(i.vhost))
	}
	if text := leaderAdvice(i.Heartbeat, c.Since(4, 0)); text != "" && i.names.Replicated() {
		i.advise("%s", text)
	}
	i.Unseen.Policies = fmt.Sprintf("policies do not show over AMQP: see rabbitmqctl list_policies -p %s (and "+
		"list_operator_policies) for any that match %q or %q and set expires, message-ttl, max-length, dead-letter-exchange or "+
		"ha-mode, and exempt this lock's queues", shellescape.Quote(i.vhost), first, second)
	return report, nil
}

// everyNode connects to every node, and returns what is wrong with those that do not let us in.
func everyNode(ctx context.Context, d *transport.Dialer) (
	all []*transport.Conn, nodes []broker.Node, failures []error) {
	for _, candidate := range d.Brokers {
		c, err := d.DialOne(ctx, candidate, "check")
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", candidate.Label(), err))
			continue
		}
		all, nodes = append(all, c), append(nodes, candidate)
	}
	return all, nodes, failures
}

// ageing is how old messages get to see whether a ledger keeps them. AMQP does not show after how long they expire.
const ageing = 500 * time.Millisecond

// inspection is one Inspect under way.
type inspection struct {
	*Report
	names     names.Names
	conn      *transport.Conn
	others    []*transport.Conn // to the other nodes that are named
	channel   *transport.Channel
	publisher *transport.Publisher
	plain     bool // neither T nor W is used
	probing   transport.Probing
	known     func(broker.Node) string // by which user a node knows us
	vhost     string

	trialB, trialT string // the queues in slot 0, which no lock has: for trying
}

func (i *inspection) problem(kind error, format string, args ...any) {
	i.Problems = append(i.Problems, lock.Errorf(kind, format, args...))
}

func (i *inspection) advise(format string, args ...any) {
	i.Advice = append(i.Advice, fmt.Sprintf(format, args...))
}

// detectType finds out of which type the queues of the lock are. Where it cannot, the steps that follow say why.
func (i *inspection) detectType(ctx context.Context) {
	if i.plain {
		return
	}
	n, err := slots.DetectType(ctx, i.channel, i.names)
	switch {
	case errors.Is(err, lock.ErrUnsafe), errors.Is(err, lock.ErrDenied):
		i.Problems = append(i.Problems, err)
	case err == nil:
		i.QueueType = n.Type
		i.names = n
		if other := n.Other(); i.channel.Find(ctx, other.Origin()) == nil && !slots.IsShell(ctx, i.channel, other) {
			i.problem(lock.ErrUnsafe, "%s has queues of both types, as %q and %q show, and two commands can run at once; end all "+
				"that use it, and delete the queues of one type", n.ID, n.Origin(), other.Origin())
		}
	}
}

// publish finds out whether the user may publish, with a message to a queue that is not there, and by which name the
// broker knows it.
func (i *inspection) publish(ctx context.Context) error {
	var err error
	switch {
	case !i.plain:
		said := transport.Message{Type: "check"} // as records have it
		if _, err = i.publisher.Publish(ctx, i.trialB, said); errors.Is(err, transport.ErrUnfit) {
			_, err = i.publisher.Publish(ctx, i.trialB, said) // by the name that it has told
		}
		if err == nil {
			i.User = i.known(i.conn.Node())
			i.permit()
		}
		if i.User != "" && i.User != i.conn.Node().User() {
			i.advise("the broker knows this user as %q: berths with another login name it with --lock-users", i.User)
		}
	case i.probing != transport.ByPassive:
		_, err = i.publisher.Probe(ctx, []string{i.trialB})
	}
	switch {
	case errors.Is(err, lock.ErrDenied):
		i.problem(lock.ErrDenied,
			"user %q has no write permission on the exchange amq.default; its write pattern has to match that, "+
				"as %s does", i.conn.User(), writePattern)
	case errors.Is(err, transport.ErrUnfit):
		i.problem(lock.ErrDenied, "the broker does not take messages of user %q, and does not tell its name for that "+
			"user (%s); write that in the URL", i.conn.User(), err.Error())
	case errors.Is(err, transport.ErrUnanswered):
		i.advise("a probe was not answered (%s): are there memory or disk alarms? Holders go on under an alarm",
			err.Error())
	}
	return ctx.Err()
}

// tryQueues makes queues in slot 0 and looks whether they behave as berth needs.
func (i *inspection) tryQueues(ctx context.Context) error {
	if len(i.Problems) > 0 {
		return nil // it would fail for the reasons that are known already
	}
	err := i.channel.Claim(ctx, i.trialB)
	switch {
	case err != nil, i.plain:
	case i.names.Replicated():
		err = i.channel.CreateTrial(ctx, i.trialT)
	default:
		err = i.channel.ClaimKeeping(ctx, i.trialT, names.LedgerLength)
	}
	switch {
	case errors.Is(err, transport.ErrTaken):
		i.advise("another berth check looks at this lock at the moment; how its queues behave was not tried")
		return nil
	case errors.Is(err, lock.ErrDenied): // what the lock itself needs is permitted
		i.advise("how queues behave was not tried in slot 0, which nothing else uses: %s", err.Error())
		return nil
	case errors.Is(err, lock.ErrUnknown):
		i.problem(lock.ErrUnsafe,
			"the broker does not make a queue such as berth needs: %s; see the limits and policies of the "+
				"vhost", err.Error())
		return nil
	case err != nil:
		return err
	}
	if err := i.compareNodes(ctx); err != nil {
		return err
	}
	found, err := i.publisher.Probe(ctx, []string{i.trialB})
	if err == nil && found[0] != transport.Present {
		i.problem(lock.ErrUnsafe,
			"the broker does not confirm a probe of queue %q, which is there; look for a policy that matches it: "+
				"rabbitmqctl list_policies -p %s", i.trialB, shellescape.Quote(i.vhost))
	}
	if err == nil && !i.plain {
		err = i.tryLedger(ctx)
	}
	if err == nil && i.names.Replicated() {
		err = i.tryReturn(ctx)
	}
	if errors.Is(err, transport.ErrUnanswered) && ctx.Err() == nil {
		i.advise("the broker does not serve publishers now; how queues behave was not tried to the end")
		return nil
	}
	return err
}

// compareNodes looks whether the other nodes know the queue that this one has made. Two brokers would have a lock each.
func (i *inspection) compareNodes(ctx context.Context) error {
	for _, other := range i.others {
		switch found, err := other.Knows(ctx, i.trialB); {
		case err != nil:
			i.advise("not known whether %s is of the same cluster: %s", other.Label(), err.Error())
		case found == transport.Absent:
			i.problem(lock.ErrUnsafe, "%s does not know queue %q, which %s has made: they are not one cluster, or not in one "+
				"virtual host, and each would give the same slot to another berth; name the nodes of one cluster", other.Label(),
				i.trialB, i.conn.Label())
		}
	}
	return ctx.Err()
}

// tryLedger looks whether a ledger keeps what is written to it: as many records as berth relies on.
func (i *inspection) tryLedger(ctx context.Context) error {
	letters := slices.Repeat([]transport.Letter{{Queue: i.trialT, Message: transport.Message{Type: "check"}}},
		names.LedgerFull)
	err := i.publisher.Lend(ctx, func(c *transport.Channel) error {
		_, err := c.Send(ctx, letters)
		return err
	})
	if err == nil {
		err = transport.Sleep(ctx, ageing)
	}
	if err != nil {
		return err
	}
	kept, _, err := i.channel.Count(ctx, i.trialT)
	if err == nil && kept < len(letters) {
		i.advise("a queue like %q kept %d of %d messages, so a policy limits it (max-length, message-ttl): handovers will "+
			"take the whole handover delay, waiters lose their place, and on quorum queues commands may be ended, or none "+
			"started; exempt queues of this name", i.trialT, kept, len(letters))
	}
	return err
}

// lookForForeign looks for queues in the place of ours that are exclusive to nobody, which look like held ones to a
// berth that claims them.
func (i *inspection) lookForForeign(ctx context.Context) error {
	var places []string
	if !i.names.Replicated() {
		places = append(places, i.names.Holds(1))
	}
	if i.names.ID.Kind.Administered() || i.names.Replicated() {
		places = append(places, i.names.Administration())
	}
	for _, queue := range places {
		if i.channel.Find(ctx, queue) == nil {
			i.Problems = append(i.Problems, i.names.Foreign(queue))
		}
	}
	if ctx.Err() == nil && i.conn.Broken() {
		return i.conn.BrokenError("cannot inspect " + i.names.ID.String())
	}
	return ctx.Err()
}

// lookForLedger looks whether a plain lock is used with the full protocol, too.
func (i *inspection) lookForLedger(ctx context.Context) error {
	for _, of := range []names.Names{i.names, i.names.Other()} {
		if i.plain && i.channel.Find(ctx, of.Ledger(1)) == nil {
			i.Problems = append(i.Problems, of.Mixed(1))
		}
	}
	return ctx.Err()
}

// count notes how many slots the lock has.
func (i *inspection) count(ctx context.Context) {
	n, err := slots.Count(ctx, i.channel, i.names)
	if err != nil {
		i.advise("the slots cannot be counted: %s", err.Error())
		return
	}
	if i.Slots = n; n == 0 {
		i.Advice = append([]string{i.names.Absent().Error()}, i.Advice...)
	}
}
