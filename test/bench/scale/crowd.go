package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"berth/lock"
)

// crowd is contenders that wait, each in a goroutine of its own.
type crowd struct {
	tally tally
	wins  chan win // has room for all: nobody waits for its being read

	stop    context.CancelFunc
	ctx     context.Context // ends with stop
	running sync.WaitGroup
	mu      sync.Mutex
	members []*contender // guarded by mu
}

// win is how one contender's wait ended.
type win struct {
	nr   int       // of the contender
	held lock.Held // nil on an error
	when time.Time // when its command could start
	err  error
}

// newCrowd returns a crowd of nobody with room for n. The caller disperses it.
func newCrowd(ctx context.Context, n int) *crowd {
	c := &crowd{wins: make(chan win, n)}
	c.ctx, c.stop = context.WithCancel(ctx)
	return c
}

// gather has contenders from..to-1 connect, some at a time, and returns when
// each has found its lock held and waits.
func (c *crowd) gather(b *bench, from, to int, at lock.Backend, id func(nr int) lock.ID) error {
	var done atomic.Int64
	defer b.progress("%d of %d wait", &done, to-from)()
	return inParallel(to-from, b.sizes.Parallel, func(i int) error {
		nr := from + i
		if err := c.ctx.Err(); err != nil {
			return err
		}
		who, err := enter(c.ctx, at, id(nr), &c.tally)
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.members = append(c.members, who)
		c.mu.Unlock()
		queued, ended := make(chan struct{}), make(chan error, 1)
		c.running.Go(func() {
			held, err := who.obtain(c.ctx, func() { close(queued) })
			c.wins <- win{nr, held, time.Now(), err}
			ended <- err
		})
		select {
		case <-queued:
			done.Add(1)
			return nil
		case err := <-ended:
			return errors.Join(errors.New("a contender does not wait for a lock that is held"), err)
		case <-time.After(patience):
			return fmt.Errorf("a contender did not find out within %s that its lock is held", patience)
		}
	})
}

// next returns who obtains a slot next.
func (c *crowd) next() (win, error) {
	select {
	case w := <-c.wins:
		return w, w.err
	case <-time.After(patience):
		return win{}, fmt.Errorf("nobody of the waiters obtained the free slot within %s", patience)
	case <-c.ctx.Done():
		return win{}, c.ctx.Err()
	}
}

// awake returns how many have returned from Wait since then.
func (c *crowd) awake(since time.Time) (n int) {
	for _, m := range c.members {
		if m.woke.Load() >= since.UnixNano() {
			n++
		}
	}
	return n
}

// quiet fails if a contender does not wait any more.
func (c *crowd) quiet() error {
	select {
	case w := <-c.wins:
		return errors.Join(errors.New("a waiter left the queue though nobody gave the lock back"), w.err)
	default:
		return nil
	}
}

// disperse ends every wait, and closes every contender with what it holds.
func (c *crowd) disperse(b *bench) {
	c.stop()
	c.running.Wait()
	leaveAll(c.members, b.sizes.Parallel)
}

// leaveAll has contenders leave, some at a time. Those that are nil have never
// come.
func leaveAll(members []*contender, atOnce int) {
	_ = inParallel(len(members), atOnce, func(i int) error {
		if members[i] != nil {
			members[i].leave()
		}
		return nil
	})
}

// inParallel calls f for 0..n-1, so many at a time, and returns what failed. It
// begins nothing new after a failure.
func inParallel(n, atOnce int, f func(i int) error) error {
	var next, failures atomic.Int64
	errs := make([]error, min(n, atOnce))
	var workers sync.WaitGroup
	for w := range errs {
		workers.Go(func() {
			for failures.Load() == 0 {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if errs[w] = f(i); errs[w] != nil {
					failures.Add(1)
				}
			}
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}

// progress says from time to time how far something is, until the returned
// function is called.
func (b *bench) progress(format string, done *atomic.Int64, all int) (stop func()) {
	over, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		t := time.NewTicker(5 * time.Second)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				b.say(format, done.Load(), all)
			case <-over:
				return
			}
		}
	}()
	return func() {
		close(over)
		<-stopped
	}
}
