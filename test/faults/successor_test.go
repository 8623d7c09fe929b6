package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"berth/prover/history"
	"berth/test/brokertest"
)

// lease is that of the timings in short.
const lease = 2 * time.Second

// successions are faults that strike the successor, or the moment at which the
// lock goes to it. Most have the holder end meanwhile.
var successions = []fault{
	// fault: supervisor-killed-idle
	{name: "successor killed, holder told to end at once", strike: plain(func(s *scene, h *contender) {
		s.successor.signal(syscall.SIGKILL)
		h.signal(syscall.SIGTERM)
	})},
	// fault: supervisor-killed-idle
	{name: "holder told to end, successor killed within 20 ms", strike: plain(func(s *scene, h *contender) {
		h.signal(syscall.SIGTERM)
		time.Sleep(rand.N(20 * time.Millisecond))
		s.successor.signal(syscall.SIGKILL)
	})},
	// fault: supervisor-killed-idle
	{name: "successor killed, holder told to end later", strike: plain(func(s *scene, h *contender) {
		s.successor.signal(syscall.SIGKILL)
		time.Sleep(settling)
		h.signal(syscall.SIGTERM)
	})},
	// fault: signal-waiting
	{name: "successor told to end, holder told to end at once", strike: plain(func(s *scene, h *contender) {
		s.successor.signal(syscall.SIGTERM)
		h.signal(syscall.SIGTERM)
	})},
	// fault: signal-starting
	{name: "holder told to end, successor told to end within 20 ms", strike: plain(func(s *scene, h *contender) {
		h.signal(syscall.SIGTERM)
		time.Sleep(rand.N(20 * time.Millisecond))
		s.successor.signal(syscall.SIGTERM)
	})},
	// fault: guard-killed-idle
	{name: "guard of the successor killed, holder told to end", strike: plain(func(s *scene, h *contender) {
		s.successor.signalGuard(syscall.SIGKILL)
		h.signal(syscall.SIGTERM)
	})},
	// fault: guard-killed-idle
	{name: "guard of the successor killed", kept: true, lasting: time.Second,
		strike: plain(func(s *scene, _ *contender) { s.successor.signalGuard(syscall.SIGKILL) })},
	// fault: supervisor-killed, supervisor-killed-idle
	{name: "holder and successor killed at once", strike: plain(func(s *scene, h *contender) {
		h.signal(syscall.SIGKILL)
		s.successor.signal(syscall.SIGKILL)
	})},
	// fault: guard-killed, guard-killed-idle
	{name: "guards of holder and successor killed at once", strike: plain(func(s *scene, h *contender) {
		h.signalGuard(syscall.SIGKILL)
		s.successor.signalGuard(syscall.SIGKILL)
	})},
	// fault: guard-stopped
	{name: "guard of the successor stopped, holder told to end", strike: plain(func(s *scene, h *contender) {
		s.successor.signalGuard(syscall.SIGSTOP)
		h.signal(syscall.SIGTERM)
	})},
	// fault: partition
	{name: "successor cut off, holder told to end", stage: stage{namespaces: true}, watched: settling,
		strike: func(s *scene, h *contender) func() {
			s.successor.net.drop()
			h.signal(syscall.SIGTERM)
			return s.successor.net.heal
		}},
	// fault: partition
	{name: "successor cut off for less than a lease, holder told to end", stage: stage{namespaces: true},
		watched: settling, lasting: lease / 2, strike: func(s *scene, h *contender) func() {
			s.successor.net.drop()
			h.signal(syscall.SIGTERM)
			return s.successor.net.heal
		}},
	// fault: partition, supervisor-killed
	{name: "successor cut off, holder killed", stage: stage{namespaces: true}, watched: settling,
		strike: func(s *scene, h *contender) func() {
			s.successor.net.drop()
			h.signal(syscall.SIGKILL)
			return s.successor.net.heal
		}},
	// fault: partition
	{name: "nothing reaches the successor, holder told to end", watched: settling,
		strike: func(s *scene, h *contender) func() {
			s.successor.relay.silence(fromBroker)
			h.signal(syscall.SIGTERM)
			return s.successor.relay.heal
		}},
	// fault: partition
	{name: "the successor reaches nobody, holder told to end", watched: settling,
		strike: func(s *scene, h *contender) func() {
			s.successor.relay.silence(toBroker)
			h.signal(syscall.SIGTERM)
			return s.successor.relay.heal
		}},
	// fault: reset
	{name: "connection of the successor reset, holder told to end", strike: plain(func(s *scene, h *contender) {
		s.successor.relay.reset()
		h.signal(syscall.SIGTERM)
	})},
	// fault: reset
	{name: "reset of everybody, holder told to end", strike: plain(func(s *scene, h *contender) {
		for _, c := range s.all {
			c.relay.reset()
		}
		h.signal(syscall.SIGTERM)
	})},
	// fault: supervisor-stopped
	{name: "successor stopped until another one runs, holder told to end", watched: settling, strike: stopSuccessor},
	// fault: supervisor-stopped
	{name: "successor stopped for longer than a lease, holder told to end", watched: settling, lasting: 2 * lease,
		strike: stopSuccessor},
	// fault: supervisor-stopped
	{name: "successor stopped for a lease, holder told to end", watched: settling, lasting: lease,
		strike: stopSuccessor},
	// fault: supervisor-stopped
	{name: "successor stopped for less than a lease, holder told to end", watched: settling, lasting: lease / 2,
		strike: stopSuccessor},
	// fault: supervisor-stopped
	{name: "holder told to end, successor stopped within 20 ms", watched: settling, lasting: 2 * lease,
		strike: func(s *scene, h *contender) func() {
			h.signal(syscall.SIGTERM)
			time.Sleep(rand.N(20 * time.Millisecond))
			s.successor.signal(syscall.SIGSTOP)
			return func() { s.successor.signal(syscall.SIGCONT) }
		}},
	// fault: supervisor-stopped, supervisor-killed
	{name: "successor stopped until another one runs, holder killed", watched: settling,
		strike: func(s *scene, h *contender) func() {
			s.successor.signal(syscall.SIGSTOP)
			h.signal(syscall.SIGKILL)
			return func() { s.successor.signal(syscall.SIGCONT) }
		}},
	// fault: signal-starting
	{name: "newcomer of higher priority while the holder ends", strike: plain(func(s *scene, h *contender) {
		s.stage.flags = append(s.stage.flags, "--priority", "5")
		s.join()
		time.Sleep(rand.N(60 * time.Millisecond)) // in which it comes to the line
		h.signal(syscall.SIGTERM)
	})},
	// fault: alarm
	{name: "memory alarm and a newcomer, holder told to end later", strike: func(s *scene, h *contender) func() {
		heal := alarm(s, h)
		s.join()
		time.Sleep(2 * settling) // in which the successor will have noticed
		h.signal(syscall.SIGTERM)
		return heal
	}},
	// fault: alarm, supervisor-killed
	{name: "memory alarm, holder killed later", strike: func(s *scene, h *contender) func() {
		heal := alarm(s, h)
		time.Sleep(2 * settling)
		h.signal(syscall.SIGKILL)
		return heal
	}},
	// fault: supervisor-killed-idle
	{name: "two slots, successor killed, both holders told to end", stage: stage{kind: "semaphore", slots: 2},
		strike: plain(func(s *scene, h *contender) {
			s.contend() // or too few are left for both slots
			s.successor.signal(syscall.SIGKILL)
			h.signal(syscall.SIGTERM)
			s.all[1].signal(syscall.SIGTERM)
		})},
	// fault: supervisor-killed
	{name: "two slots, both holders killed at once", stage: stage{kind: "semaphore", slots: 2},
		strike: plain(func(s *scene, h *contender) {
			h.signal(syscall.SIGKILL)
			s.all[1].signal(syscall.SIGKILL)
		})},
	// fault: supervisor-stopped
	{name: "two slots, successor stopped for longer than a lease, holder told to end", lasting: 2 * lease,
		stage: stage{kind: "semaphore", slots: 2}, watched: settling, strike: stopSuccessor},
	// fault: stranger
	{name: "stranger takes B while the lock is handed over", watched: settling, lasting: lease,
		strike: func(s *scene, h *contender) func() {
			other := newStranger(s.t, s.broker.URL(), s.queue("1-B"))
			h.signal(syscall.SIGTERM)
			if !other.got(lease) {
				s.t.Log("the stranger was too slow")
			}
			return other.leave
		}},
	// fault: broker-away
	{name: "broker killed between release and next start", lasting: time.Millisecond, watched: settling,
		strike: func(s *scene, h *contender) func() {
			return s.release(h, func() { s.must(s.broker.Kill9()) })
		}},
	// fault: broker-away
	{name: "broker restarted between release and next start", lasting: time.Millisecond, watched: settling,
		strike: func(s *scene, h *contender) func() { return s.release(h, func() {}) }},
	// fault: broker-away
	{name: "broker killed within 20 ms of the holder being told to end", lasting: time.Millisecond, watched: settling,
		strike: func(s *scene, h *contender) func() {
			h.signal(syscall.SIGTERM)
			time.Sleep(rand.N(20 * time.Millisecond))
			s.must(s.broker.Kill9())
			return func() { s.must(s.broker.Restart(context.Background())) }
		}},
	// fault: ledger
	{name: "ledger purged", kept: true, lasting: lease, strike: plain(func(s *scene, _ *contender) { s.purgeLedger() })},
	// fault: ledger
	{name: "ledger purged, holder told to end", strike: plain(func(s *scene, h *contender) {
		s.purgeLedger()
		h.signal(syscall.SIGTERM)
	})},
	// fault: ledger
	{name: "ledger purged, holder killed", strike: plain(func(s *scene, h *contender) {
		s.purgeLedger()
		h.signal(syscall.SIGKILL)
	})},
	// fault: ledger
	{name: "ledger deleted", kept: true, lasting: lease, strike: plain(func(s *scene, _ *contender) { s.delete("T") })},
	// fault: ledger
	// Where no record is left when it has ended, its successor waits for the longest lease.
	{name: "ledger deleted, holder told to end", stage: stage{shortLeases: true}, strike: plain(func(s *scene, h *contender) {
		s.delete("T")
		h.signal(syscall.SIGTERM)
	})},
	// fault: ledger
	{name: "ledger deleted, holder killed later", strike: plain(func(s *scene, h *contender) {
		s.delete("T")
		time.Sleep(settling)
		h.signal(syscall.SIGKILL)
	})},
	// fault: ledger
	{name: "ledger deleted within 150 ms of a handover", lasting: lease, strike: plain(func(s *scene, h *contender) {
		at := history.Now()
		h.signal(syscall.SIGTERM)
		s.await("the next command runs", func() bool { return s.nextRuns(at) })
		time.Sleep(rand.N(150 * time.Millisecond))
		s.delete("T")
	})},
	// fault: ledger
	{name: "the holder's record expires in the hand of a successor, which leaves; holder cut off", watched: settling,
		stage: stage{mode: "stubborn", shortLeases: true}, strike: expireRecord},
	// fault: b-deleted
	{name: "B deleted, holder told to end", strike: plain(func(s *scene, h *contender) {
		s.delete("B")
		h.signal(syscall.SIGTERM)
	})},
	// fault: b-deleted, stubborn-command
	{name: "stubborn command, B deleted", stage: stage{mode: "stubborn"},
		strike: plain(func(s *scene, _ *contender) { s.delete("B") })},
}

// stopSuccessor has the holder end while the successor stands still, and so hears of it only
// when it goes on.
func stopSuccessor(s *scene, h *contender) func() {
	s.successor.signal(syscall.SIGSTOP)
	h.signal(syscall.SIGTERM)
	return func() { s.successor.signal(syscall.SIGCONT) }
}

// release has the holder end while all waiters stand still, does something to the
// broker, and returns what starts that again and lets them go on.
func (s *scene) release(h *contender, broken func()) (heal func()) {
	s.t.Helper()
	waiters := s.all[s.stage.slots:]
	for _, c := range waiters {
		c.signal(syscall.SIGSTOP)
	}
	h.signal(syscall.SIGTERM)
	s.await("the holder has given the slot back", h.ended)
	broken()
	return func() {
		s.must(s.broker.Restart(context.Background()))
		for _, c := range waiters {
			c.signal(syscall.SIGCONT)
		}
	}
}

// expireRecord has a policy take the holder's record, and not that of a successor that then leaves.
func expireRecord(s *scene, h *contender) func() {
	const old = 3 * time.Second
	for _, c := range s.all[1:] {
		c.signal(syscall.SIGTERM)
		s.await("a waiter has left", c.ended)
	}
	s.expire(old)
	s.delete("T")
	s.await("the holder is recorded again", func() bool { return s.ledger().Messages == 1 })
	written := time.Now()
	s.expire(time.Hour)
	successor := s.join()
	s.await("the newcomer is the successor", func() bool { return s.ledger().Consumers == 1 })
	time.Sleep(time.Until(written.Add(old + lease))) // in which it has put back what it has in hand
	successor.signal(syscall.SIGTERM)
	s.await("the successor has left", successor.ended)
	h.relay.down()
	s.join()
	return h.relay.heal
}

// expire has what is written to the ledger from now on expire. Each scene has a ledger of its own.
func (s *scene) expire(after time.Duration) {
	s.t.Helper()
	_, err := s.broker.Eval(context.Background(), fmt.Sprintf(
		`ok = rabbit_policy:set(<<"/">>, <<"%[1]s">>, <<"^%[1]s$">>, [{<<"message-ttl">>, %[2]d}], 0, <<"queues">>,
			<<"faults">>).`, s.queue("1-T"), after.Milliseconds()))
	s.must(err)
}

func (s *scene) ledger() brokertest.Queue {
	s.t.Helper()
	q, _, err := s.broker.Queue(context.Background(), "/", s.queue("1-T"))
	s.must(err)
	return q
}

func (s *scene) purgeLedger() {
	s.t.Helper()
	s.must(s.broker.PurgeQueue(context.Background(), "/", s.queue("1-T")))
}

func TestNoFaultOfASuccessionMakesCommandsOverlap(t *testing.T) { tryAll(t, successions, 3) }
