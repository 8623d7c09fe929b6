package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/test/bench/measure"
)

// probed is how many queues are probed in one search: A of 33 slots, and B of 32.
const probed = 65

// prober finds out, over one connection, which queues exist.
type prober struct {
	conn     *amqp.Connection
	channel  *amqp.Channel
	returned chan amqp.Return
	many     []*amqp.Channel // one for each queue
}

// probings are the ways to probe. Each returns how many of the queues are there.
var probings = []struct {
	name  string
	begin func(p *prober) error
	probe func(p *prober, queues []string) (found int, err error)
}{
	{"publish, each awaited", (*prober).confirms, each((*prober).publish)},
	{"publish, in one go", (*prober).confirms, (*prober).publish},
	{"tx, each awaited", (*prober).transacts, each((*prober).transact)},
	{"tx, in one go", (*prober).transacts, (*prober).transact},
	{"passive, each awaited", nil, (*prober).look},
	{"passive, in one go", (*prober).spread, (*prober).lookAtOnce},
}

// each probes one queue after the other.
func each(probe func(*prober, []string) (int, error)) func(*prober, []string) (int, error) {
	return func(p *prober, queues []string) (found int, err error) {
		for i := range queues {
			n, err := probe(p, queues[i:i+1])
			if err != nil {
				return found, err
			}
			found += n
		}
		return found, nil
	}
}

func newProber(url string) (*prober, error) {
	conn, err := amqp.Dial(url)
	if err != nil {
		return nil, err
	}
	p := &prober{conn: conn}
	if p.channel, err = conn.Channel(); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	p.returned = p.channel.NotifyReturn(make(chan amqp.Return, 2*probed))
	return p, nil
}

func (p *prober) confirms() error  { return p.channel.Confirm(false) }
func (p *prober) transacts() error { return p.channel.Tx() }

// publish sends to all queues before it awaits the first answer. What came back was not
// there; it came before its confirm.
func (p *prober) publish(queues []string) (found int, err error) {
	answers := make([]*amqp.DeferredConfirmation, len(queues))
	for i, q := range queues {
		if answers[i], err = p.channel.PublishWithDeferredConfirm("", q, true, false, amqp.Publishing{}); err != nil {
			return 0, err
		}
	}
	for i, answer := range answers {
		if !answer.Wait() {
			return 0, fmt.Errorf("the broker has not taken a probe of %s", queues[i])
		}
	}
	return len(queues) - p.back(), nil
}

// transact does the same in one transaction.
func (p *prober) transact(queues []string) (found int, err error) {
	for _, q := range queues {
		if err := p.channel.Publish("", q, true, false, amqp.Publishing{}); err != nil {
			return 0, err
		}
	}
	if err := p.channel.TxCommit(); err != nil {
		return 0, err
	}
	return len(queues) - p.back(), nil
}

// back counts what has come back.
func (p *prober) back() (n int) {
	for {
		select {
		case <-p.returned:
			n++
		default:
			return n
		}
	}
}

// look declares each queue passively. One that is not there costs the channel.
func (p *prober) look(queues []string) (found int, err error) {
	for _, q := range queues {
		there := false
		if there, err = lookOn(&p.channel, p.conn, q); err != nil {
			return found, err
		} else if there {
			found++
		}
	}
	return found, nil
}

func lookOn(channel **amqp.Channel, conn *amqp.Connection, queue string) (there bool, err error) {
	_, err = (*channel).QueueDeclarePassive(queue, true, false, false, false, nil)
	if refused := new(amqp.Error); errors.As(err, &refused) && refused.Code == amqp.NotFound {
		*channel, err = conn.Channel()
		return false, err
	}
	return err == nil, err
}

// spread opens a channel for each queue.
func (p *prober) spread() error {
	for range probed {
		c, err := p.conn.Channel()
		if err != nil {
			return err
		}
		p.many = append(p.many, c)
	}
	return nil
}

// lookAtOnce looks at each queue on a channel of its own, at the same time.
func (p *prober) lookAtOnce(queues []string) (found int, err error) {
	var running sync.WaitGroup
	there, failed := make([]bool, len(queues)), make([]error, len(queues))
	for i, q := range queues {
		running.Go(func() { there[i], failed[i] = lookOn(&p.many[i], p.conn, q) })
	}
	running.Wait()
	for _, t := range there {
		if t {
			found++
		}
	}
	return found, errors.Join(failed...)
}

// probes measures every way to probe, with queues that are there and such that are not.
func (b *bench) probes(ctx context.Context) error {
	present, absent, err := b.queues()
	if err != nil {
		return err
	}
	for _, what := range []struct {
		title  string
		queues []string
		found  int
	}{
		{"1 queue that is there", present[:1], 1},
		{"1 that is not", absent[:1], 0},
		{fmt.Sprintf("%d queues that are there", probed), present, probed},
		{fmt.Sprintf("%d that are not", probed), absent, 0},
	} {
		for i, way := range probings {
			if len(what.queues) == 1 && i%2 == 1 { // in one go: there is nothing to go with
				continue
			}
			b.say("RabbitMQ %s, %s: %s", b.label, what.title, way.name)
			if err := b.probe(ctx, way.name, what.title, way.begin, func(p *prober) error {
				found, err := way.probe(p, what.queues)
				if err == nil && found != what.found {
					err = fmt.Errorf("%s found %d queues and not %d", way.name, found, what.found)
				}
				return err
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// probe measures one way to probe.
func (b *bench) probe(
	ctx context.Context, name, title string, begin func(*prober) error, once func(*prober) error,
) error {
	p, err := newProber(b.broker.URL())
	if err != nil {
		return err
	}
	defer p.conn.Close()
	if begin != nil {
		if err := begin(p); err != nil {
			return err
		}
	}
	for range 3 { // it warms up
		if err := once(p); err != nil {
			return err
		}
	}
	before, err := b.snap()
	if err != nil {
		return err
	}
	var took []float64
	for range b.sizes.probes {
		began := time.Now()
		if err := once(p); err != nil {
			return err
		}
		took = append(took, measure.Milliseconds(time.Since(began)))
	}
	after, err := b.snap()
	n := float64(b.sizes.probes)
	b.all.add(probeSection, b.label+": "+title, "ms", true, name, took...)
	b.all.add(probeSection, b.label+": "+title+", processor time of the broker", "ms of it", false, name,
		measure.Milliseconds(after.broker-before.broker)/n)
	return errors.Join(err, ctx.Err())
}

// queues makes the queues that are there, and names others.
func (b *bench) queues() (present, absent []string, err error) {
	p, err := newProber(b.broker.URL())
	if err != nil {
		return nil, nil, err
	}
	defer p.conn.Close()
	for i := range probed {
		there := fmt.Sprintf("there-%d-A", i)
		if _, err := p.channel.QueueDeclare(there, true, false, false, false, amqp.Table{
			"x-queue-type": "classic", "x-max-length": int32(0), "x-overflow": "drop-head",
		}); err != nil {
			return nil, nil, err
		}
		present, absent = append(present, there), append(absent, fmt.Sprintf("missing-%d-A", i))
	}
	return present, absent, nil
}
