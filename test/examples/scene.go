package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"berth/test/brokertest"
)

// Kinds of events.
const (
	handover  = "handover"
	kill      = "kill"
	partition = "partition"
)

// sizes say how much is measured.
type sizes struct {
	messages, rate               int
	handovers, kills, partitions int
	work                         time.Duration // that a message takes,
	slowWork                     time.Duration // each twentieth,
	long                         time.Duration // and the one during which a host is cut off
}

// programs are where they were built.
type programs struct{ berth, consumer string }

// scene is three hosts, one queue, and who publishes to it.
type scene struct {
	sizes
	scheme    scheme
	programs  programs
	broker    *brokertest.Broker
	journal   *journal
	hosts     []*host
	publisher *publisher
	events    []event
}

// patience is how long is waited for what has to happen.
const patience = time.Minute

// settling is how long somebody is at work before something else happens.
const settling = 300 * time.Millisecond

// try has one scheme handle all messages, and judges it.
func try(ctx context.Context, b *brokertest.Broker, p programs, scheme scheme, size sizes, say func(string, ...any),
) (v verdict, err error) {
	dir, err := os.MkdirTemp("", "berth-examples-")
	if err != nil {
		return v, err
	}
	defer os.RemoveAll(dir)
	s := &scene{sizes: size, scheme: scheme, programs: p, broker: b}
	if s.journal, err = openJournal(filepath.Join(dir, "journal")); err != nil {
		return v, err
	}
	defer s.journal.file.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err = s.play(ctx, dir, say)
	cancel()
	if s.publisher != nil {
		for range s.publisher.done { // it has ended
		}
	}
	for _, h := range s.hosts {
		err = errors.Join(err, h.end())
	}
	if err != nil {
		for _, h := range s.hosts {
			say("%s", h.tail())
		}
		return v, fmt.Errorf("%s: %w", scheme.title, err)
	}
	if err := b.DeleteQueue(context.WithoutCancel(ctx), "/", queue); err != nil {
		return v, err
	}
	err = s.journal.read()
	return judge(s.journal.lines, size.messages, s.events), err
}

// play starts all, does what happens to consumers, and waits until all is handled.
func (s *scene) play(ctx context.Context, dir string, say func(string, ...any)) error {
	for _, name := range []string{"a", "b", "c"} {
		n, err := newNetwork(s.broker.Addr())
		if err != nil {
			return err
		}
		s.hosts = append(s.hosts, newHost(name, dir, n, s.command))
	}
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	s.publisher = publish(ctx, s.broker.URL(), queue, s.sizes)
	todo := s.sequence()
	for i, kind := range todo {
		number := (i + 1) * s.messages / (len(todo) + 1)
		err := s.await(ctx, fmt.Sprintf("message %d", number), func() bool {
			return int(s.publisher.published.Load()) >= number && s.settled()
		})
		if err != nil {
			return err
		}
		say("%s: %s at message %d", s.scheme.title, kind, s.publisher.published.Load())
		if err := s.happen(ctx, kind); err != nil {
			return fmt.Errorf("%s %d: %w", kind, i+1, err)
		}
	}
	return s.finish(ctx)
}

// sequence is in which order things happen: always the same.
func (s *scene) sequence() []string {
	todo := slices.Concat(slices.Repeat([]string{handover}, s.handovers), slices.Repeat([]string{kill}, s.kills),
		slices.Repeat([]string{partition}, s.partitions))
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
	return todo
}

// awaitReady waits for the queue, and for a successor.
func (s *scene) awaitReady(ctx context.Context) error {
	return s.await(ctx, "consumers", func() bool {
		consumers := queue
		if s.scheme.berth {
			consumers = mutex + "-W"
		}
		_, made, _ := s.broker.Queue(ctx, "/", queue)
		q, _, _ := s.broker.Queue(ctx, "/", consumers)
		return made && q.Consumers >= 2
	})
}

// happen does it to the consumer at work, and returns once another one is.
func (s *scene) happen(ctx context.Context, kind string) error {
	if err := s.journal.read(); err != nil {
		return err
	}
	var long int
	if kind == partition {
		var err error
		if long, err = s.publisher.next(ctx, s.long); err != nil {
			return err
		}
		if err := s.await(ctx, "the long message", func() bool { return s.journal.begun[long] > 0 }); err != nil {
			return err
		}
	}
	now := s.atWork()
	from := s.hosts[slices.IndexFunc(s.hosts, func(h *host) bool { return h.name == now.host })]
	e := event{kind: kind, at: time.Duration(time.Now().UnixNano()), old: now.pid}
	err := error(nil)
	switch kind {
	case handover:
		err = s.handOver(ctx, from)
	case kill:
		err = from.signal(syscall.SIGKILL)
	case partition:
		from.network.silence()
		defer from.network.speak()
	}
	if err != nil {
		return err
	}
	err = s.await(ctx, "the next consumer", func() bool {
		e.next = s.successor(e)
		now := s.journal.last()
		return e.next != 0 && (long == 0 || now.pid == e.next && now.number > long)
	})
	s.events = append(s.events, e)
	return err
}

// atWork returns the last line of the consumer at work. The one before may be, too.
func (s *scene) atWork() line {
	before := 0
	if n := len(s.events); n > 0 {
		before = s.events[n-1].old
	}
	for _, l := range slices.Backward(s.journal.lines) {
		if l.pid != before {
			return l
		}
	}
	return line{}
}

// settled reports whether somebody is at work, and has been for a while: each event is
// about one change.
func (s *scene) settled() bool {
	now := s.atWork()
	return now.at-s.journal.first[now.pid] >= settling
}

// successor returns the first process that was never at work before the event, 0 while
// there is none.
func (s *scene) successor(e event) int {
	known := map[int]bool{e.old: true}
	for _, before := range s.events {
		known[before.old], known[before.next] = true, true
	}
	for _, l := range slices.Backward(s.journal.lines) {
		if !known[l.pid] {
			return l.pid
		}
		if l.at < e.at {
			break
		}
	}
	return 0
}

// finish waits until every message is confirmed and handled, or nothing comes any more.
func (s *scene) finish(ctx context.Context) error {
	select {
	case err := <-s.publisher.done:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	handled, since := 0, time.Now()
	return s.await(ctx, "the end", func() bool {
		if n := len(s.journal.lines); n != handled {
			handled, since = n, time.Now()
		}
		return len(s.journal.done) == s.messages || time.Since(since) > patience/2
	})
}

// await reads the journal until there is what is waited for. While messages come from
// the journal there is no end of patience.
func (s *scene) await(ctx context.Context, what string, there func() bool) error {
	read, end := len(s.journal.lines), time.Now().Add(patience)
	for {
		if err := s.journal.read(); err != nil {
			return err
		}
		if there() {
			return nil
		}
		if n := len(s.journal.lines); n != read {
			read, end = n, time.Now().Add(patience)
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s did not come within %s", what, patience)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
}
