package faults

import (
	"context"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// tokens is the kind of lock that has them.
const tokens = "token-semaphore"

// quorum is the type of queues that are on several nodes. Others are classic ones.
const quorum = "quorum"

// same are the faults of other kinds of lock that a token semaphore is tried with too.
var same = []string{
	"silent partition", "reset", "reset of everybody", "reset and no way back", "latency of 3 s",
	"broker killed and started again", "broker stopped and continued", "memory alarm", "memory alarm, holder told to end",
	"memory alarm, holder killed", "all connections closed by the operator", "A deleted and made again",
	"supervisor killed", "one of two supervisors killed", "two slots, reset of everybody",
	"supervisor stopped and continued", "guard killed", "supervisor and guard killed at once",
	"successor killed, holder told to end at once", "successor cut off, holder told to end",
	"successor stopped for longer than a lease, holder told to end",
}

// sameB are those of them that strike queue B, which is not there with quorum queues.
var sameB = []string{"B deleted"}

// tokenFaults concern the tokens, and nothing that decides who runs.
var tokenFaults = []fault{
	// fault: tokens
	{name: "tokens purged", stage: stage{kind: tokens}, kept: true, lasting: time.Second,
		strike: func(s *scene, _ *contender) func() {
			s.must(s.broker.PurgeQueue(context.Background(), "/", s.tokens()))
			return nil
		}},
	// fault: tokens
	{name: "tokens deleted", stage: stage{kind: tokens}, kept: true, lasting: 2 * time.Second,
		strike: func(s *scene, _ *contender) func() {
			s.must(s.broker.DeleteQueue(context.Background(), "/", s.tokens()))
			return s.create // as an operator does; waiters do so by themselves after minutes
		}},
	// fault: tokens, supervisor-killed
	{name: "tokens deleted, holder killed", stage: stage{kind: tokens, slots: 2},
		strike: plain(func(s *scene, h *contender) {
			s.must(s.broker.DeleteQueue(context.Background(), "/", s.tokens()))
			s.create()
			h.signal(syscall.SIGKILL)
		})},
	// fault: tokens
	{name: "two slots, all tokens there three times", stage: stage{kind: tokens, slots: 2}, kept: true,
		lasting: 2 * time.Second, strike: plain(doubleTokens)},
	// fault: tokens, supervisor-killed
	{name: "two slots, all tokens there three times, holder killed", stage: stage{kind: tokens, slots: 2},
		strike: plain(func(s *scene, h *contender) {
			doubleTokens(s, h)
			h.signal(syscall.SIGKILL)
		})},
	// fault: tokens, reset
	{name: "two slots, all tokens there three times, reset of everybody", stage: stage{kind: tokens, slots: 2},
		kept: true, lasting: 2 * time.Second, strike: plain(func(s *scene, h *contender) {
			doubleTokens(s, h)
			for _, c := range s.all {
				c.relay.reset()
			}
		})},
	// fault: tokens, partition
	{name: "all tokens there three times, silent partition", stage: stage{kind: tokens},
		strike: func(s *scene, h *contender) func() {
			doubleTokens(s, h)
			h.relay.silence(toBroker, fromBroker)
			return h.relay.heal
		}},
	// fault: tokens
	{name: "tokens full of junk, holder told to end", stage: stage{kind: tokens},
		strike: plain(func(s *scene, h *contender) {
			s.must(s.broker.Fill(context.Background(), "/", s.tokens(), "junk", 150))
			h.signal(syscall.SIGTERM)
		})},
}

func (s *scene) tokens() string {
	switch {
	case !s.stage.onQuorumQueues():
		return s.lock + "-K"
	case s.stage.kind == "mutex":
		return s.lock + "-Q-M"
	case s.stage.kind == "persistent-mutex":
		return s.lock + "-Q-P"
	}
	return s.lock + "-Q"
}

// doubleTokens publishes two more of each, as a stranger may.
func doubleTokens(s *scene, _ *contender) {
	s.t.Helper()
	conn, err := amqp.Dial(s.broker.URL())
	if err != nil {
		s.t.Fatalf("a stranger cannot connect: %v", err)
	}
	defer conn.Close()
	channel, err := conn.Channel()
	s.must(err)
	for n := range 2 * s.stage.slots {
		s.must(channel.Publish("", s.tokens(), false, false, amqp.Publishing{
			Headers: amqp.Table{"slot": int32(1 + n%s.stage.slots)}}))
	}
	s.must(channel.Close()) // which the broker answers once it has them
}

// on returns faults as those of a lock of a kind with queues of a type.
func on(queues, kind string, of []fault) []fault {
	var all []fault
	for _, f := range of {
		f.name = queues + " " + kind + ": " + f.name
		f.stage.kind, f.stage.made = kind, []string{"--queue-type", queues}
		all = append(all, f)
	}
	return all
}

func TestNoFaultMakesHoldersOfTokensOverlap(t *testing.T) {
	classic := slices.Concat(named(t, same...), named(t, sameB...), tokenFaults)
	tryAll(t, on("classic", tokens, classic), 4)
}

func TestNoFaultMakesHoldersOfQuorumTokensOverlap(t *testing.T) {
	all := slices.Concat(named(t, same...), tokenFaults)
	if !rabbit.Since(4, 0) { // it may keep consumers of a deleted queue, and have them lose what comes to the next one
		all = slices.DeleteFunc(all, func(f fault) bool { return strings.HasPrefix(f.name, "tokens deleted") })
	}
	tryAll(t, on(quorum, tokens, all), 4)
}

// The first berth makes the mutex, and nobody administers it.
func TestNoFaultMakesHoldersOfAMutexOnQuorumQueuesOverlap(t *testing.T) {
	one := slices.DeleteFunc(named(t, same...), func(f fault) bool { return f.stage.slots > 1 })
	tryAll(t, on(quorum, "mutex", one), 4)
}

// The type is changed as docs/clusters.md says, with a removal that is taken up again by somebody who finds no slot, while
// a command runs that cannot be told.
//
// fault: slot-removed, partition
func TestChangeOfTheTypeMakesNothingOverlap(t *testing.T) {
	for from, to := range map[string]string{"classic": quorum, quorum: "classic"} {
		changed := fault{name: "silent partition, removed in two steps, made again with the other type",
			strike: func(s *scene, h *contender) func() {
				h.relay.silence(toBroker, fromBroker)
				s.administer(tokens, "destroy", s.lock)
				s.administer(tokens, "destroy", s.lock, "--wait")
				s.must(s.broker.DeleteQueue(context.Background(), "/", s.tokens()+"-1-T"))
				s.stage.made = []string{"--queue-type", to}
				s.create()
				s.join() // which looks at once
				return h.relay.heal
			}}
		f := on(from, tokens, []fault{changed})[0]
		st := f.stage
		st.flags = []string{"--heartbeat", "5s", "--loss", "TERM 300ms, KILL", "--stop", "TERM 300ms, KILL"}
		r := results.row(f.name, 3)
		for range rounds {
			t.Run(f.name, func(t *testing.T) { clean(t, f.play(open(t, rabbit, st), r)) })
		}
	}
}
