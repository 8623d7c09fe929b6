package scale

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"berth/lock"
)

// crowd is contenders that wait, each in a goroutine of its own.
type crowd struct {
	*scene
	tally tally
	wins  chan win // has room for all: nobody waits for its being read

	stop    context.CancelFunc
	ctx     context.Context // ends with stop
	running sync.WaitGroup
	members []*contender // nil where one has not come
}

// win is how one contender's wait ended.
type win struct {
	nr   int       // of the contender
	held lock.Held // nil on an error
	when time.Time // when its command could start
	err  error
}

// newCrowd returns a crowd of nobody with room for n. The caller disperses it.
func (s *scene) newCrowd(ctx context.Context, n int) *crowd {
	c := &crowd{scene: s, wins: make(chan win, n), members: make([]*contender, n)}
	c.ctx, c.stop = context.WithCancel(ctx)
	return c
}

// gather has all contenders connect, some at a time, and returns when each has found
// its lock held and waits.
func (c *crowd) gather(at lock.Backend, id func(nr int) lock.ID) error {
	return c.inParallel(len(c.members), "wait", func(nr int) error {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		member, err := enter(c.ctx, at, id(nr), &c.tally)
		if err != nil {
			return err
		}
		c.members[nr] = member
		queued, ended := make(chan struct{}), make(chan error, 1)
		c.running.Go(func() {
			held, err := member.obtain(c.ctx, func() { close(queued) })
			c.wins <- win{nr, held, time.Now(), err}
			ended <- err
		})
		select {
		case <-queued:
			return nil
		case err := <-ended:
			return errors.Join(errors.New("a contender does not wait for a lock that is held"), err)
		case <-time.After(patience):
			return fmt.Errorf("a contender did not find out within %s that its lock is held", patience)
		}
	})
}

// next returns the contender that obtains a slot next.
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

// awake returns how many have returned from Wait since then, see measure.Now.
func (c *crowd) awake(since int64) (n int) {
	for _, m := range c.members {
		if m.woke.Load() >= since {
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
func (c *crowd) disperse() {
	c.stop()
	c.running.Wait()
	c.leaveAll(c.members)
}

// leaveAll has contenders leave, some at a time.
func (s *scene) leaveAll(members []*contender) {
	_ = s.inParallel(len(members), "have left", func(i int) error {
		members[i].leave()
		return nil
	})
}
