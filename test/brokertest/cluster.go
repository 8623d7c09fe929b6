package brokertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// Cluster is a RabbitMQ cluster, of nodes that Start could have started. Each is
// a Broker of its own, but for Stop, which is the cluster's to call.
type Cluster struct {
	Nodes []*Broker
}

// NewCluster starts a cluster for one test and ends it with the test.
func NewCluster(tb testing.TB, nodes int) *Cluster {
	tb.Helper()
	c, err := StartCluster(context.Background(), nodes)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// StartCluster starts a cluster of so many nodes and returns once all of them
// answer AMQP clients. Nothing is set that RabbitMQ has a default for: when the
// nodes lose each other, both sides go on. The caller calls Stop.
func StartCluster(ctx context.Context, nodes int) (*Cluster, error) {
	first, err := Start(ctx)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Nodes: []*Broker{first}}
	for range nodes - 1 {
		b, err := prepare(first)
		if err != nil {
			return nil, errors.Join(err, c.Stop())
		}
		c.Nodes = append(c.Nodes, b)
	}
	if err := errors.Join(c.launch(ctx), c.join(ctx)); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// launch starts all nodes but the first, at once.
func (c *Cluster) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, len(c.Nodes))
	for i, b := range c.Nodes[1:] {
		wg.Go(func() { errs[i] = b.launch(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// join has all nodes join the first one's cluster, one after the other.
func (c *Cluster) join(ctx context.Context) error {
	for _, b := range c.Nodes[1:] {
		join := "rabbit_mnesia:join_cluster"
		if b.Since(4, 0) {
			join = "rabbit_db_cluster:join"
		}
		for _, code := range []string{
			"rabbit:await_startup()", // it answers clients a moment before
			"ok = rabbit:stop()",
			fmt.Sprintf("ok = %s('%s', disc)", join, c.Nodes[0].name()),
			"ok = rabbit:start()",
		} {
			if err := b.do(ctx, "have a node join a cluster", "%s", code); err != nil {
				return fmt.Errorf("%w; the end of its log:\n%s", err, b.logTail())
			}
		}
	}
	return c.await(ctx, nil)
}

// Split cuts a node off from all others, which stay together. Clients of either
// side notice nothing of it by themselves. It returns once both sides know.
func (c *Cluster) Split(ctx context.Context, alone *Broker) error {
	// With another cookie for them it refuses and is refused.
	err := alone.do(ctx, "cut a node off",
		`[begin erlang:set_cookie(N, apart), erlang:disconnect_node(N) end || N <- %s]`, c.others(alone))
	if err != nil {
		return err
	}
	return c.await(ctx, alone)
}

// Interrupt cuts a node off from all others for no longer than it takes them to
// find each other again. Each side knows that the other was gone, and nothing of
// what it did meanwhile and does from now on, until Heal.
func (c *Cluster) Interrupt(ctx context.Context, alone *Broker) error {
	return alone.do(ctx, "interrupt a cluster", `[true = erlang:disconnect_node(N) || N <- %s]`, c.others(alone))
}

// Heal undoes Split and Interrupt. The node that was alone starts again: on Mnesia the
// two sides do not become one by themselves, and on Khepri (4.2 and later) an exclusive
// queue stays that it could not delete while it was alone.
func (c *Cluster) Heal(ctx context.Context, alone *Broker) error {
	err := c.Rejoin(ctx, alone)
	switch {
	case err != nil:
		return err
	case alone.Since(4, 2):
		err = alone.Restart(ctx) // in place it takes long to stop
	default:
		err = alone.RestartInPlace(ctx, 0)
	}
	if err != nil {
		return err
	}
	return c.await(ctx, nil)
}

// Rejoin lets all nodes find each other again, as a network does that works again: nothing restarts.
func (c *Cluster) Rejoin(ctx context.Context, alone *Broker) error {
	err := alone.do(ctx, "let a node back",
		`[begin erlang:set_cookie(N, erlang:get_cookie()), net_kernel:connect_node(N) end || N <- %s]`, c.others(alone))
	if err != nil {
		return err
	}
	return c.await(ctx, nil)
}

// Roll restarts all nodes, one after the other, as an upgrade does: it waits until no queue depends on the node, drains
// it, stops it cleanly and starts it again.
func (c *Cluster) Roll(ctx context.Context) error {
	for _, b := range c.Nodes {
		for _, code := range []string{
			fmt.Sprintf("true = rabbit_upgrade_preparation:await_online_quorum_plus_one(%d)", rollTimeout.Milliseconds()),
			"ok = rabbit_maintenance:drain()",
		} {
			if err := b.do(ctx, "drain a node", "%s", code); err != nil {
				return err
			}
		}
		if err := b.Restart(ctx); err != nil {
			return err
		}
		if _, err := b.PID(ctx); err != nil { // it answers clients a moment before all of it has started
			return err
		}
		if err := c.await(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// rollTimeout is for how long a node is waited for that queues depend on.
const rollTimeout = callTimeout / 2

// others returns the other nodes of the cluster, as an Erlang list.
func (c *Cluster) others(than *Broker) string {
	var names []string
	for _, b := range c.Nodes {
		if b != than {
			names = append(names, "'"+b.name()+"'")
		}
	}
	return "[" + strings.Join(names, ", ") + "]"
}

// await waits until all nodes see each other, but for the one that is alone, if any.
func (c *Cluster) await(ctx context.Context, alone *Broker) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for {
		var wrong []string
		for _, b := range c.Nodes {
			nodes, err := b.Eval(ctx, "nodes()")
			if err != nil {
				return fmt.Errorf("cannot find out what a node sees of its cluster: %w", err)
			}
			for _, other := range c.Nodes {
				together := b != alone && other != alone
				if b != other && strings.Contains(nodes, other.name()) != together {
					wrong = append(wrong, b.name()+" sees "+nodes)
				}
			}
		}
		if len(wrong) == 0 {
			return nil
		}
		if !pause(ctx, 20*time.Millisecond) {
			return fmt.Errorf("the nodes of a cluster do not find or lose each other: %s: %w",
				strings.Join(wrong, ", "), ctx.Err())
		}
	}
}

// Stop ends all nodes. A second Stop has no effect.
func (c *Cluster) Stop() error {
	var errs []error
	for i := len(c.Nodes) - 1; i >= 0; i-- { // the first one has the port mapper
		errs = append(errs, c.Nodes[i].Stop())
	}
	return errors.Join(errs...)
}
