package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// outcome is what one SIGKILL of a holder's wrapper has led to.
type outcome struct {
	next     float64 // seconds until the standby's command started
	never    bool    // it has not, within the contender's bound
	survived bool    // the killed wrapper's command lived when it did, or all the time
}

// measureKill kills holders' wrappers. Where a standby takes long, all rounds go
// on at once, on locks of their own; where it takes milliseconds they alternate.
func (b *bench) measureKill(ctx context.Context) ([]*measure, error) {
	outcomes := map[*contender][]outcome{}
	var slow, quick []*contender
	for _, c := range b.arena.contenders {
		if c.killsAtOnce {
			slow = append(slow, c)
		} else {
			quick = append(quick, c)
		}
	}
	err := b.rounds(ctx, b.options.kills, quick, func(_ int, c *contender) error {
		o, err := b.kill(ctx, c, "kill")
		outcomes[c] = append(outcomes[c], o)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := b.killAtOnce(ctx, slow, outcomes); err != nil {
		return nil, err
	}
	next := &measure{ID: "kill", Title: "The wrapper is killed (SIGKILL): until the standby's command starts", Unit: "s", Plot: true}
	survived := &measure{ID: "survived", Title: "The wrapper is killed: its command still runs when the standby's starts, or for good", Unit: "runs"}
	for _, c := range b.arena.contenders {
		nevers, survivors := 0, 0
		for _, o := range outcomes[c] {
			alive := 0.0
			if o.survived {
				alive = 1
				survivors++
			}
			survived.add(c.name, alive)
			if o.never {
				nevers++
			} else {
				next.add(c.name, o.next)
			}
		}
		if nevers > 0 {
			r := next.of(c.name)
			r.Text = fmt.Sprintf("never in %d of %d (waited %s)", nevers, b.options.kills, c.killBound)
			if len(r.Samples) > 0 {
				r.Text += ", else " + number(median(r.Samples))
			}
		}
		survived.of(c.name).Text = fmt.Sprintf("%d of %d", survivors, b.options.kills)
	}
	return []*measure{next, survived}, nil
}

// killAtOnce does all rounds of some contenders at the same time. Each begins a
// little after the one before, so that they do not start their processes at once.
func (b *bench) killAtOnce(ctx context.Context, contenders []*contender, outcomes map[*contender][]outcome) error {
	const apart = 100 * time.Millisecond
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	var mu sync.Mutex
	var errs []error
begin:
	for round := range b.options.kills {
		b.progress(round, b.options.kills)
		for _, c := range contenders {
			group.Go(func() {
				o, err := b.kill(ctx, c, fmt.Sprintf("kill-%d", round))
				mu.Lock()
				defer mu.Unlock()
				outcomes[c] = append(outcomes[c], o)
				if err != nil {
					errs = append(errs, err)
					cancel() // the others need not go on
				}
			})
			if sleep(ctx, apart) != nil {
				break begin
			}
		}
	}
	group.Wait()
	if len(errs) > 0 {
		return errs[0]
	}
	return ctx.Err()
}

// kill has a standby wait and kills the holder's wrapper.
func (b *bench) kill(ctx context.Context, c *contender, lock string) (outcome, error) {
	holder, err := b.arena.launch(c, lock, longRun)
	if err != nil {
		return outcome{}, err
	}
	defer holder.close()
	held, err := holder.awaitStart(ctx)
	if err != nil {
		return outcome{}, err
	}
	standby, err := b.arena.launch(c, lock, 0)
	if err != nil {
		return outcome{}, err
	}
	defer standby.close()
	if err := sleep(ctx, queueing); err != nil {
		return outcome{}, err
	}
	died, err := watchDeath(held.pid, c.killBound+patience)
	if err != nil {
		return outcome{}, err
	}
	struck := now()
	if err := holder.Process.Kill(); err != nil {
		return outcome{}, fmt.Errorf("cannot kill the wrapper of %s: %w", c.name, err)
	}
	err = standby.await(ctx, c.killBound)
	if err != nil && !errors.Is(err, errStillRuns) {
		return outcome{}, err
	}
	dead := died()
	s, err := standby.stamps()
	if err != nil {
		return outcome{}, err
	}
	if s.start == 0 {
		return outcome{never: true, survived: dead == 0}, nil
	}
	// Strict: the moment of death is when we got to know of it.
	return outcome{next: float64(s.start-struck) / 1e9, survived: dead == 0 || dead > s.start}, nil
}

// watchDeath watches a process until it dies, or for bound. What it returns tells
// when that was, 0 if not yet.
func watchDeath(pid int, bound time.Duration) (func() int64, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot watch the command: %w", err)
	}
	var mu sync.Mutex
	var at int64
	go func() { // ends by itself: attempt.close kills the process
		defer unix.Close(fd)
		for end := time.Now().Add(bound); time.Now().Before(end); {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Until(end).Milliseconds())+1)
			if n > 0 && err == nil {
				mu.Lock()
				at = now()
				mu.Unlock()
				return
			}
		}
	}()
	return func() int64 {
		mu.Lock()
		defer mu.Unlock()
		return at
	}, nil
}
