package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// measureIdle measures what waiters that wait and nothing else cost a server. All
// servers are watched at the same time.
func (b *bench) measureIdle(ctx context.Context) ([]*measure, error) {
	var mu sync.Mutex
	var group sync.WaitGroup
	counted := map[*contender]messages{}
	var failed error
	b.progress(0, 1)
	for _, c := range b.arena.contenders {
		if c.traffic == nil {
			continue
		}
		group.Go(func() {
			m, err := b.idle(ctx, c)
			mu.Lock()
			defer mu.Unlock()
			counted[c] = m
			if failed == nil {
				failed = err
			}
		})
	}
	group.Wait()
	if failed != nil {
		return nil, failed
	}
	title := func(what string) string { return fmt.Sprintf("%d idle waiters: %s", b.options.waiters, what) }
	all := &measure{ID: "idle", Title: title("messages to the server, with keepalives"), Unit: "per s", Plot: true}
	requests := &measure{ID: "idle-requests", Title: title("to the server, without keepalives"), Unit: "per s"}
	keepalives := &measure{ID: "idle-keepalives", Title: title("keepalives to the server"), Unit: "per s"}
	answers := &measure{ID: "idle-answers", Title: title("from the server, without keepalives"), Unit: "per s"}
	keepaliveAnswers := &measure{ID: "idle-keepalive-answers", Title: title("keepalives from the server"), Unit: "per s"}
	measures := []*measure{all, requests, keepalives, answers, keepaliveAnswers}
	for _, c := range b.arena.contenders {
		if c.traffic == nil {
			for _, m := range measures {
				m.of(c.name).Text = "no server"
			}
			continue
		}
		m := counted[c]
		all.add(c.name, m.requests+m.keepalives)
		requests.add(c.name, m.requests)
		keepalives.add(c.name, m.keepalives)
		answers.add(c.name, m.answers)
		keepaliveAnswers.add(c.name, m.keepaliveAnswers)
	}
	return measures, nil
}

// idle has waiters wait, and counts once they have settled.
func (b *bench) idle(ctx context.Context, c *contender) (messages, error) {
	release, err := c.traffic.hold(ctx, "idle")
	if err != nil {
		return messages{}, err
	}
	defer release()
	var waiters []*attempt
	defer func() {
		var group sync.WaitGroup
		for _, w := range waiters {
			group.Go(w.close)
		}
		group.Wait()
	}()
	for range b.options.waiters {
		w, err := b.arena.launchWith(c, c.traffic.wrap, "idle", b.arena.file(), 0)
		if err != nil {
			return messages{}, err
		}
		waiters = append(waiters, w)
	}
	if err := sleep(ctx, b.options.settle); err != nil {
		return messages{}, err
	}
	before, err := c.traffic.count(ctx)
	if err != nil {
		return messages{}, err
	}
	began := now()
	if err := sleep(ctx, b.options.idle); err != nil {
		return messages{}, err
	}
	after, err := c.traffic.count(ctx)
	if err != nil {
		return messages{}, err
	}
	seconds := float64(now()-began) / 1e9
	for _, w := range waiters {
		if err := w.await(ctx, 0); !errors.Is(err, errStillRuns) {
			return messages{}, w.failed("it has not waited")
		}
		if s, err := w.stamps(); err != nil || s.start != 0 {
			return messages{}, w.failed("its command has started, although the lock is held")
		}
	}
	return after.perSecond(seconds, before), nil
}
