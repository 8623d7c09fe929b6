package rabbit_test

import (
	"fmt"
	"testing"

	"berth/lock"
	"berth/lock/rabbit"
)

// A look at a lock whose slots are all held by somebody who answers. The first one has each holder connect for its
// answer.
func BenchmarkLook(b *testing.B) {
	for _, slots := range []int{1, 5, 100} {
		b.Run(fmt.Sprint(slots), func(b *testing.B) {
			ctx := measured(b)
			id := fresh(lock.Semaphore)
			made, err := rabbit.New(at(shared.URL()))
			must(b, err)
			a := made.Administrator(id)
			_, _, err = a.Resize(ctx, 0, func(int) (int, error) { return slots, nil })
			must(b, err)
			must(b, a.Close())
			for range slots {
				l := entered(ctx, b, id)
				h := seize(ctx, b, l)
				answering(b, l, says("somebody", h.Slot()))
			}
			i := inspector(b, at(shared.URL()), id)
			look := func() error {
				s, err := i.Look(ctx)
				answered := 0
				for _, slot := range s.Slots {
					if slot.Holder != nil {
						answered++
					}
				}
				if err == nil && answered < slots {
					err = fmt.Errorf("%d of %d have answered", answered, slots)
				}
				return err
			}
			var first, s stopwatch
			first.run(b, func() error { _, err := i.Look(ctx); return err })
			for look() != nil { // each has connected
			}
			for b.Loop() {
				s.run(b, look)
			}
			s.report(b)
			b.ReportMetric(milliseconds(first[0]), "ms-first")
		})
	}
}
