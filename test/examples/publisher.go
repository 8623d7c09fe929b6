package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// slowEvery is how often a message takes its time.
const slowEvery = 20

// publisher publishes numbered messages at a steady rate, and has the broker confirm
// each. Its connection is never disturbed.
type publisher struct {
	total, rate int
	work        time.Duration // that a message takes,
	slowWork    time.Duration // and each twentieth
	published   atomic.Int64
	slow        chan time.Duration // the next message takes this long,
	slowNumber  chan int           // and has this number
	done        chan error         // gets nil once all are confirmed, and is closed
}

// publish begins. The queue is there.
func publish(ctx context.Context, url, queue string, s sizes) *publisher {
	p := &publisher{
		total: s.messages, rate: s.rate, work: s.work, slowWork: s.slowWork,
		slow: make(chan time.Duration), slowNumber: make(chan int, 1), done: make(chan error, 1),
	}
	go func() {
		p.done <- p.run(ctx, url, queue)
		close(p.done)
	}()
	return p
}

func (p *publisher) run(ctx context.Context, url, queue string) error {
	conn, err := amqp.Dial(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := channel.Confirm(false); err != nil {
		return err
	}
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, p.total))
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	work := p.work
	for number, began := 1, time.Now(); number <= p.total; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case work = <-p.slow:
			p.slowNumber <- number
		case <-tick.C:
		}
		for ; number <= p.total && number <= int(time.Since(began).Seconds()*float64(p.rate)); number++ {
			body := fmt.Appendf(nil, "%d %s", number, work)
			err := channel.PublishWithContext(ctx, "", queue, true, false,
				amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body})
			if err != nil {
				return fmt.Errorf("cannot publish message %d: %w", number, err)
			}
			p.published.Store(int64(number))
			if work = p.work; number%slowEvery == slowEvery-1 { // the next one
				work = p.slowWork
			}
		}
	}
	for range p.total {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case confirmed := <-confirms:
			if !confirmed.Ack {
				return fmt.Errorf("the broker has not taken message %d", confirmed.DeliveryTag)
			}
		}
	}
	return nil
}

// next has the next message take this long, and returns its number.
func (p *publisher) next(ctx context.Context, work time.Duration) (int, error) {
	select {
	case p.slow <- work:
		return <-p.slowNumber, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	case err := <-p.done:
		return 0, fmt.Errorf("everything is published already: %w", err)
	}
}
