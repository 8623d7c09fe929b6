package rabbit_test

import (
	"context"
	"fmt"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit"
)

// sizes are those of a lock for a few hosts, for a rack, and of the largest
// locks that are meant to work well.
var sizes = []int{8, 64, 1000}

// resized gives a new semaphore so many slots, until the benchmark ends.
func resized(ctx context.Context, b *testing.B, slots int) lock.ID {
	b.Helper()
	id := fresh(lock.Semaphore)
	enlarge(ctx, b, id, slots)
	b.Cleanup(func() { enlarge(ctx, b, id, 0) })
	return id
}

// enlarge does what `berth semaphore resize` does.
func enlarge(ctx context.Context, b *testing.B, id lock.ID, slots int) {
	b.Helper()
	if err := create(ctx, id, slots); err != nil {
		b.Fatal(err)
	}
}

func create(ctx context.Context, id lock.ID, slots int) error {
	const sweep = 16 // of the command line, when nothing is said
	made, err := rabbit.New(at(shared.URL()))
	if err != nil {
		return err
	}
	a := made.Administrator(id)
	defer a.Close()
	_, _, err = a.Resize(ctx, sweep, func(int) (int, error) { return slots, nil })
	return err
}

// occupy holds slots of a lock on one connection, until the benchmark ends.
func occupy(b *testing.B, id lock.ID, from, to int) {
	b.Helper()
	conn, err := amqp.Dial(shared.URL())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		b.Fatal(err)
	}
	for slot := from; slot <= to; slot++ {
		if _, err := ch.QueueDeclare(fmt.Sprintf("%s-%d-B", id.Name, slot), false, false, true, false,
			nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCreateSemaphore(b *testing.B) {
	for _, slots := range sizes {
		b.Run(fmt.Sprint("slots=", slots), func(b *testing.B) {
			ctx := measured(b)
			id := fresh(lock.Semaphore)
			var s stopwatch
			for b.Loop() {
				s.run(b, func() error { return create(ctx, id, slots) })
				enlarge(ctx, b, id, 0)
			}
			s.report(b)
		})
	}
}

// Whether A and B of so many slots exist: all asked at once, as berth does, and
// one after the other.
func BenchmarkProbe(b *testing.B) {
	for _, slots := range append([]int{1}, sizes...) {
		b.Run(fmt.Sprint("pipelined/slots=", slots), func(b *testing.B) {
			probing(b, slots, rabbit.Probe)
		})
		b.Run(fmt.Sprint("one-by-one/slots=", slots), func(b *testing.B) {
			probing(b, slots, func(ctx context.Context, l lock.Lock, queues ...string) error {
				for _, q := range queues {
					if err := rabbit.Probe(ctx, l, q); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

func probing(b *testing.B, slots int, probe func(context.Context, lock.Lock, ...string) error) {
	ctx := measured(b)
	id := resized(ctx, b, slots)
	occupy(b, id, 2, slots)
	l := entered(ctx, b, id)
	var queues []string
	for slot := 1; slot <= slots; slot++ {
		queues = append(queues, fmt.Sprintf("%s-%d-A", id.Name, slot), fmt.Sprintf("%s-%d-B", id.Name, slot))
	}
	if err := probe(ctx, l, queues[:2]...); err != nil { // opens the publisher
		b.Fatal(err)
	}
	var s stopwatch
	for b.Loop() {
		s.run(b, func() error { return probe(ctx, l, queues...) })
	}
	s.report(b)
}

// One attempt at a lock of which only the last slot is free: the longest search.
func BenchmarkSearchAndClaim(b *testing.B) {
	for _, slots := range sizes {
		b.Run(fmt.Sprint("slots=", slots), func(b *testing.B) {
			ctx := measured(b)
			id := resized(ctx, b, slots)
			occupy(b, id, 1, slots-1)
			l := entered(ctx, b, id)
			if err := rabbit.Probe(ctx, l, id.Name); err != nil { // opens the publisher
				b.Fatal(err)
			}
			var s stopwatch
			for b.Loop() {
				var h lock.Held
				s.run(b, func() (err error) {
					h, err = l.Acquire(ctx)
					return err
				})
				if h.Slot() != slots {
					b.Fatalf("slot %d, but only %d is free", h.Slot(), slots)
				}
				if err := h.Release(ctx); err != nil {
					b.Fatal(err)
				}
			}
			s.report(b)
		})
	}
}
