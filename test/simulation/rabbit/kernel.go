package rabbit

import (
	"cmp"
	"container/heap"
	"slices"
	"sync"
	"time"
)

// kernel runs everything of a cluster, in one goroutine, one event after the other. What comes from outside, operators'
// calls and what clients write, becomes events as well.
type kernel struct {
	step    time.Duration
	wait    func() // nil: nothing is waited for
	delay   func() time.Duration
	wake    chan struct{} // holds one, if there is something in incoming
	closing chan struct{}
	ended   chan struct{} // the goroutine is over

	mu       sync.Mutex
	incoming []input // guarded by mu

	// The rest is the goroutine's.
	now     time.Time
	seq     uint64
	events  events
	flushes func(rest func()) // hands what is to be written to connections, with a rest between two
}

// input is something from outside.
type input struct {
	from int // a connection; 0: an operator
	f    func()
}

// event is something that happens at a time. Those of one time happen in the order in which they were made.
type event struct {
	at    time.Time
	nanos int64 // the same, which is compared faster
	seq   uint64
	f     func() // nil: it was called off
}

type events []*event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	a, b := e[i], e[j]
	return a.nanos < b.nanos || a.nanos == b.nanos && a.seq < b.seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(*event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

func newKernel(config Config) *kernel {
	return &kernel{step: config.Step, wait: config.Wait, delay: config.Delay, wake: make(chan struct{}, 1), closing: make(chan struct{}),
		ended: make(chan struct{}), now: time.Now()}
}

// enter has something from outside happen, soon.
func (k *kernel) enter(from int, f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.incoming = append(k.incoming, input{from, f})
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// do has f happen, and returns once it has, or once the kernel has ended.
func (k *kernel) do(f func()) {
	done := make(chan struct{})
	k.enter(0, func() {
		defer close(done)
		f()
	})
	select {
	case <-done:
	case <-k.ended:
	}
}

// run is the goroutine. It returns when closing is closed.
func (k *kernel) run() {
	defer close(k.ended)
	for {
		if !k.await() {
			return
		}
		k.rest()
		k.now = time.Now()
		k.take()
		for len(k.events) > 0 && !k.events[0].at.After(k.now) {
			if e := heap.Pop(&k.events).(*event); e.f != nil {
				e.f()
			}
		}
		k.flushes(k.rest)
	}
}

// await waits until something is to happen; false: nothing will any more.
func (k *kernel) await() bool {
	var due <-chan time.Time
	if len(k.events) > 0 {
		timer := time.NewTimer(time.Until(k.events[0].at))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-k.wake:
	case <-due:
	case <-k.closing:
		return false
	}
	return true
}

// rest waits until all other goroutines of a bubble are at rest: fake time passes only then.
func (k *kernel) rest() {
	if k.step > 0 {
		time.Sleep(k.step)
	}
	if k.wait != nil {
		k.wait()
	}
}

// take makes events of what came from outside, in an order that does not depend on which goroutine ran first.
func (k *kernel) take() {
	k.mu.Lock()
	all := k.incoming
	k.incoming = nil
	select {
	case <-k.wake: // or there would be one event more, of nothing, depending on which goroutine was faster
	default:
	}
	k.mu.Unlock()
	slices.SortStableFunc(all, func(a, b input) int { return cmp.Compare(a.from, b.from) })
	for _, one := range all {
		k.at(k.now, one.f)
	}
}

// at has f happen at that time.
func (k *kernel) at(when time.Time, f func()) *event {
	k.seq++
	e := &event{when, when.UnixNano(), k.seq, f}
	heap.Push(&k.events, e)
	return e
}

// stop calls off an event; nil is none.
func (e *event) stop() {
	if e != nil {
		e.f = nil
	}
}
