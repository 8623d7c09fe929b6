package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// patience is how long is waited for what has to happen. Nothing is concluded
// from it.
const patience = 60 * time.Second

// wrapper returns the line that runs a command under a lock.
type wrapper func(lock string, command []string) []string

// contender is one way to run a command under a lock.
type contender struct {
	name        string // as in the tables
	version     string
	environment []string
	log         *os.File // what its wrappers write
	wrap        wrapper

	// four runs commands under a lock with four slots, which makeFour has made;
	// nil where there is no such thing.
	four     wrapper
	makeFour func(ctx context.Context, lock string) error

	// killBound is how long a standby is waited for when the holder's wrapper was
	// killed. Where that is long, killsAtOnce has all kills done at the same time,
	// on locks of their own.
	killBound   time.Duration
	killsAtOnce bool

	// traffic counts what a server and its clients have said to each other; nil
	// where there is no server.
	traffic *traffic
}

// traffic is how a contender's idle waiters are watched.
type traffic struct {
	wrap  wrapper // a waiter that is counted
	count func(ctx context.Context) (messages, error)
	// hold has the lock held by somebody who is not counted, until release is
	// called.
	hold func(ctx context.Context, lock string) (release func(), err error)
}

// messages are counters that only grow.
type messages struct {
	requests, answers            float64 // to and from the server, without those below
	keepalives, keepaliveAnswers float64 // what is said to be known to be alive
}

// perSecond returns how much was counted since before.
func (m messages) perSecond(seconds float64, before messages) messages {
	return messages{
		requests:         (m.requests - before.requests) / seconds,
		answers:          (m.answers - before.answers) / seconds,
		keepalives:       (m.keepalives - before.keepalives) / seconds,
		keepaliveAnswers: (m.keepaliveAnswers - before.keepaliveAnswers) / seconds,
	}
}

// plainEnvironment is all that wrappers and servers get: a developer's BERTH_,
// ETCDCTL_ or CONSUL_ variables must not matter here.
func plainEnvironment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LANG=C.UTF-8"}
}

// flock is util-linux's flock(1).
func (a *arena) flock(ctx context.Context) (*contender, error) {
	version, err := a.firstLine(ctx, nil, "flock", "--version")
	if err != nil {
		return nil, err
	}
	return &contender{
		name:    "flock",
		version: strings.TrimPrefix(version, "flock from "),
		wrap: func(lock string, command []string) []string {
			return append([]string{"flock", filepath.Join(a.dir, lock+".flock")}, command...)
		},
		// The child has inherited the lock and holds it for as long as it lives.
		killBound:   3 * time.Second,
		killsAtOnce: true,
	}, nil
}
