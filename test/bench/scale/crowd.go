package scale

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"berth/lock"
	"berth/test/bench/measure"
)

// patience bounds every single step. The slowest that works is a waiter whose
// baton was lost: it looks by itself every minute or two.
const patience = 3 * time.Minute

// crowd is contenders that want one slot each, every one in a goroutine of its own.
type crowd struct {
	*scene
	id   func(nr int) lock.ID // what each wants
	wins chan win             // has room for all: nobody waits for its being read

	returned atomic.Int64 // times that Wait returned
	full     atomic.Int64 // attempts for which every slot was held

	ctx     context.Context // ends with stop
	stop    context.CancelFunc
	running sync.WaitGroup
	members []lock.Lock // nil where one has not come
}

// win is how one contender's wait ended.
type win struct {
	nr   int       // of the contender
	held lock.Held // nil on an error
	when time.Time // when its command could start
	err  error
}

// newCrowd returns a crowd of nobody with room for n. The caller disperses it.
func (s *scene) newCrowd(ctx context.Context, n int, id func(nr int) lock.ID) *crowd {
	c := &crowd{scene: s, id: id, wins: make(chan win, n), members: make([]lock.Lock, n)}
	c.ctx, c.stop = context.WithCancel(ctx)
	return c
}

// mutex names the nth mutex.
func mutex(n int) lock.ID { return lock.ID{Kind: lock.Mutex, Name: fmt.Sprintf("bench-%d", n)} }

// gather has all contenders connect, some at a time, and returns when each has a
// slot, or has found its lock held and waits.
func (c *crowd) gather() error {
	return c.inParallel(func(nr int) error {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		l := c.locks.Lock(c.id(nr))
		c.members[nr] = l
		if err := c.connect(l); err != nil {
			return err
		}
		queued, ended := make(chan struct{}), make(chan error, 1)
		c.running.Go(func() {
			held, err := c.obtain(l, sync.OnceFunc(func() { close(queued) }))
			c.wins <- win{nr, held, time.Now(), err}
			ended <- err
		})
		select {
		case <-queued:
			return nil
		case err := <-ended:
			return err
		case <-time.After(patience):
			return fmt.Errorf("a contender did not find out within %s whether its lock is held", patience)
		}
	})
}

// connect connects a contender, and tries again while the broker is too busy.
func (c *crowd) connect(l lock.Lock) error {
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	for {
		err := l.Connect(ctx)
		if err == nil || !errors.Is(err, lock.ErrUnreachable) || ctx.Err() != nil {
			return err
		}
		if measure.Sleep(ctx, rand.N(firstPoll)) != nil {
			return err
		}
	}
}

// The pauses of a berth between attempts where nothing tells when to make the next
// one: they double from the first to the longest, on average.
const (
	firstPoll = 50 * time.Millisecond
	maxPoll   = 500 * time.Millisecond
)

// obtain waits for a slot and returns when a command could start in it. It calls
// queued before it waits. A connection that is lost is made again, as berth does.
func (c *crowd) obtain(l lock.Lock, queued func()) (lock.Held, error) {
	for poll := firstPoll; ; poll = min(2*poll, maxPoll) {
		h, err := l.Acquire(c.ctx)
		if err == nil {
			if err = h.Ready(c.ctx); err == nil {
				return h, nil
			}
			err = errors.Join(err, release(h))
		}
		if errors.Is(err, lock.ErrFull) {
			c.full.Add(1)
		}
		if errors.Is(err, lock.ErrFull) || errors.Is(err, lock.ErrUnknown) {
			queued()
			if err = l.Wait(c.ctx, rand.N(2*poll)); err == nil {
				c.returned.Add(1)
				continue
			}
		}
		if c.ctx.Err() != nil {
			return nil, c.ctx.Err()
		}
		if !errors.Is(err, lock.ErrUnreachable) {
			return nil, err
		}
		if err := c.connect(l); err != nil {
			return nil, err
		}
	}
}

// release gives a slot back, also when the run is being given up.
func release(h lock.Held) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return h.Release(ctx)
}

// next returns the contender that obtains a slot next.
func (c *crowd) next() (win, error) {
	select {
	case w := <-c.wins:
		return w, w.err
	case <-time.After(patience):
		return win{}, fmt.Errorf("nobody obtained a free slot within %s", patience)
	case <-c.ctx.Done():
		return win{}, c.ctx.Err()
	}
}

// all returns what every contender has obtained, once all of them have.
func (c *crowd) all() ([]win, error) {
	wins := make([]win, len(c.members))
	for range wins {
		w, err := c.next()
		if err != nil {
			return nil, err
		}
		wins[w.nr] = w
	}
	return wins, nil
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

// disperse ends every wait, and closes every contender with what it holds. An error
// would say that the broker was too busy to confirm that within a second, and the
// connection was cut instead: nothing that a measurement fails over.
func (c *crowd) disperse() {
	c.stop()
	c.running.Wait()
	_ = c.inParallel(func(nr int) error {
		if c.members[nr] != nil {
			_ = c.members[nr].Close()
		}
		return nil
	})
}

// inParallel calls f for all contenders, some at a time, and returns what failed. It
// begins nothing new after a failure.
func (c *crowd) inParallel(f func(nr int) error) error {
	const atOnce = 16
	var next, failures atomic.Int64
	errs := make([]error, atOnce)
	var workers sync.WaitGroup
	for w := range errs {
		workers.Go(func() {
			for failures.Load() == 0 {
				nr := int(next.Add(1)) - 1
				if nr >= len(c.members) {
					return
				}
				if errs[w] = f(nr); errs[w] != nil {
					failures.Add(1)
				}
			}
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}
