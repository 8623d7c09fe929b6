package faults

import (
	"cmp"
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"berth/prover/history"
	"berth/test/brokertest"
)

// fault is something that breaks while the first contender holds the lock.
type fault struct {
	name  string
	stage stage

	// strike breaks something and returns what ends the fault; nil: nothing.
	strike func(s *scene, h *contender) (heal func())

	// The holder's command has to go on, in every run: docs/safety.md promises it.
	kept bool

	// The fault lasts until another command runs if lasting is 0, and otherwise
	// that long, whether a command is started again because of it or not.
	lasting time.Duration

	// How long is waited after the fault for a command that might be started too much;
	// default: half a second.
	watched time.Duration
}

// plain are faults that are over in a moment and need no healing.
func plain(f func(s *scene, h *contender)) func(*scene, *contender) func() {
	return func(s *scene, h *contender) func() {
		f(s, h)
		return nil
	}
}

var faults = []fault{
	// fault: partition
	{name: "silent partition", strike: func(_ *scene, h *contender) func() {
		h.relay.silence(toBroker, fromBroker)
		return h.relay.heal
	}},
	// fault: partition
	{name: "packets dropped", stage: stage{namespaces: true}, strike: func(_ *scene, h *contender) func() {
		h.net.drop()
		return h.net.heal
	}},
	// fault: reset
	{name: "reset", kept: true, lasting: time.Second, strike: plain(func(_ *scene, h *contender) { h.relay.reset() })},
	// fault: reset
	{name: "reset of everybody", kept: true, lasting: time.Second, strike: plain(func(s *scene, _ *contender) {
		for _, c := range s.all {
			c.relay.reset()
		}
	})},
	// fault: cut-off
	{name: "reset and no way back", strike: func(_ *scene, h *contender) func() {
		h.relay.down()
		return h.relay.heal
	}},
	// fault: partition
	{name: "half open, nothing to the broker", strike: func(_ *scene, h *contender) func() {
		h.relay.silence(toBroker)
		return h.relay.heal
	}},
	// fault: partition
	{name: "half open, nothing from the broker", strike: func(_ *scene, h *contender) func() {
		h.relay.silence(fromBroker)
		return h.relay.heal
	}},
	// fault: partition
	{name: "latency of 3 s", strike: func(_ *scene, h *contender) func() {
		h.relay.delay(3 * time.Second)
		return h.relay.heal
	}},
	// fault: short-silence
	{name: "latency of 60 ms for everybody", kept: true, lasting: 4 * time.Second,
		strike: func(s *scene, _ *contender) func() {
			for _, c := range s.all {
				c.relay.delay(60 * time.Millisecond) // a verification of a mutex takes four of them
			}
			return func() {
				for _, c := range s.all {
					c.relay.heal()
				}
			}
		}},
	// fault: broker-away
	{name: "broker killed and started again", lasting: time.Millisecond, strike: func(s *scene, _ *contender) func() {
		s.must(s.broker.Kill9())
		return func() { s.must(s.broker.Restart(context.Background())) }
	}},
	// fault: broker-silent
	{name: "broker stopped and continued", lasting: 6 * time.Second, strike: func(s *scene, _ *contender) func() {
		s.must(s.broker.Pause())
		return func() { s.must(s.broker.Continue()) }
	}},
	// fault: short-silence
	{name: "broker stopped for half a second", kept: true, lasting: 500 * time.Millisecond,
		strike: func(s *scene, _ *contender) func() {
			s.must(s.broker.Pause())
			return func() { s.must(s.broker.Continue()) }
		}},
	// fault: alarm
	{name: "memory alarm", kept: true, lasting: 4 * time.Second, strike: alarm},
	// fault: alarm
	{name: "disk alarm", kept: true, lasting: 4 * time.Second, strike: func(s *scene, _ *contender) func() {
		s.must(s.broker.RaiseDiskAlarm(context.Background()))
		return func() { s.must(s.broker.ClearDiskAlarm(context.Background())) }
	}},
	// fault: alarm
	{name: "memory alarm, holder told to end", strike: func(s *scene, h *contender) func() {
		heal := alarm(s, h)
		h.signal(syscall.SIGTERM)
		return heal
	}},
	// fault: alarm, supervisor-killed
	{name: "memory alarm, holder killed", strike: func(s *scene, h *contender) func() {
		heal := alarm(s, h)
		h.signal(syscall.SIGKILL)
		return heal
	}},
	// fault: reset
	{name: "connections closed by the operator", kept: true, lasting: time.Second,
		strike: plain(func(s *scene, h *contender) {
			s.close(fmt.Sprintf("%s @", s.lock), h)
		})},
	// fault: reset
	{name: "all connections closed by the operator", kept: true, lasting: time.Second,
		strike: plain(func(s *scene, _ *contender) {
			s.close("", nil)
		})},
	// fault: b-deleted
	{name: "B deleted", strike: plain(func(s *scene, _ *contender) { s.delete("B") })},
	// fault: b-deleted
	{name: "B vanished, and nobody is told", stage: stage{kind: "semaphore"}, strike: plain(func(s *scene, _ *contender) {
		s.forget()
		s.join() // looks at once, as a waiter need not
	})},
	// fault: slot-removed
	{name: "A deleted and made again", stage: stage{kind: "semaphore"}, lasting: time.Second,
		strike: func(s *scene, _ *contender) func() {
			s.delete("A")
			return s.create
		}},
	// fault: supervisor-killed
	{name: "supervisor killed", strike: plain(func(_ *scene, h *contender) { h.signal(syscall.SIGKILL) })},
	// fault: supervisor-killed
	{name: "one of two supervisors killed", stage: stage{kind: "semaphore", slots: 2},
		strike: plain(func(_ *scene, h *contender) {
			h.signal(syscall.SIGKILL)
		})},
	// fault: partition
	{name: "one of two holders in a silent partition", stage: stage{kind: "semaphore", slots: 2},
		strike: func(_ *scene, h *contender) func() {
			h.relay.silence(toBroker, fromBroker)
			return h.relay.heal
		}},
	// fault: reset
	{name: "two slots, reset of everybody", kept: true, stage: stage{kind: "semaphore", slots: 2}, lasting: time.Second,
		strike: plain(func(s *scene, _ *contender) {
			for _, c := range s.all {
				c.relay.reset()
			}
		})},
	// fault: supervisor-stopped
	{name: "supervisor stopped and continued", strike: func(_ *scene, h *contender) func() {
		h.signal(syscall.SIGSTOP)
		return func() { h.signal(syscall.SIGCONT) }
	}},
	// fault: guard-killed
	{name: "guard killed", strike: plain(func(_ *scene, h *contender) { h.signalGuard(syscall.SIGKILL) })},
	// fault: guard-stopped
	{name: "guard stopped", kept: true, lasting: 3 * time.Second,
		strike: plain(func(_ *scene, h *contender) { h.signalGuard(syscall.SIGSTOP) })},
	// fault: batons
	{name: "batons deleted", lasting: time.Second, strike: plain(func(s *scene, _ *contender) { s.deleteBatons() })},
	// fault: batons, supervisor-killed
	{name: "batons deleted, holder killed at once", strike: plain(func(s *scene, h *contender) {
		s.deleteBatons()
		h.signal(syscall.SIGKILL)
	})},
	// fault: batons, supervisor-killed
	{name: "batons deleted, holder killed later", strike: plain(func(s *scene, h *contender) {
		s.deleteBatons()
		s.awaitBaton()
		h.signal(syscall.SIGKILL)
	})},
	// fault: batons
	{name: "batons purged, holder told to end", strike: plain(func(s *scene, h *contender) {
		s.must(s.broker.PurgeQueue(context.Background(), "/", s.batons()))
		h.signal(syscall.SIGTERM)
	})},
	// fault: batons
	{name: "batons full of junk", lasting: 2 * time.Second, strike: plain(func(s *scene, _ *contender) { s.junk() })},
	// fault: batons, supervisor-killed
	{name: "batons full of junk, holder killed", strike: plain(func(s *scene, h *contender) {
		s.junk()
		h.signal(syscall.SIGKILL)
	})},
	// fault: batons
	{name: "two slots, batons full of junk, holder told to end", stage: stage{kind: "semaphore", slots: 2},
		strike: plain(func(s *scene, h *contender) {
			s.junk()
			h.signal(syscall.SIGTERM)
		})},
	// fault: both-killed
	{name: "supervisor and guard killed at once", strike: plain(killBoth)},
	// fault: both-killed-namespace
	{name: "forking command in a PID namespace, both killed at once",
		stage: stage{mode: "forking", flags: []string{"--pid-namespace"}}, strike: plain(killBoth)},
	// fault: supervisor-killed, stubborn-command
	{name: "forking command, supervisor killed", stage: stage{mode: "forking"},
		strike: plain(func(_ *scene, h *contender) {
			h.signal(syscall.SIGKILL)
		})},
	// fault: guard-killed, stubborn-command
	{name: "forking command, guard killed", stage: stage{mode: "forking"}, strike: plain(func(_ *scene, h *contender) {
		h.signalGuard(syscall.SIGKILL)
	})},
	// fault: partition, stubborn-command
	{name: "forking command, silent partition", stage: stage{mode: "forking"},
		strike: func(_ *scene, h *contender) func() {
			h.relay.silence(toBroker, fromBroker)
			return h.relay.heal
		}},
	// fault: stubborn-command
	{name: "forking command, told to end", stage: stage{mode: "forking"}, strike: plain(func(_ *scene, h *contender) {
		h.signal(syscall.SIGTERM)
	})},
	// fault: b-deleted, stubborn-command
	{name: "forking command, B deleted", stage: stage{mode: "forking"},
		strike: plain(func(s *scene, _ *contender) { s.delete("B") })},
}

func alarm(s *scene, _ *contender) func() {
	s.must(s.broker.RaiseMemoryAlarm(context.Background()))
	return func() { s.must(s.broker.ClearMemoryAlarm(context.Background())) }
}

// killBoth stops both first, so that neither sees the other die.
func killBoth(_ *scene, h *contender) {
	guard := h.guard()
	h.signal(syscall.SIGSTOP) // first: one that runs continues its guard
	h.signalGuard(syscall.SIGSTOP)
	_ = syscall.Kill(guard, syscall.SIGKILL)
	h.signal(syscall.SIGKILL)
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Error(err)
	}
}

// close closes the connections of a contender, or of all.
func (s *scene) close(text string, of *contender) {
	s.t.Helper()
	if of != nil {
		text = fmt.Sprintf("pid %d ", of.pid())
	}
	n, err := s.broker.CloseConnections(context.Background(), text)
	if s.must(err); n == 0 {
		s.t.Error("there was no connection to close")
	}
}

// queue returns the name of a queue of the lock.
func (s *scene) queue(suffix string) string {
	if s.stage.kind == tokens || s.stage.onQuorumQueues() {
		return s.tokens() + "-" + suffix
	}
	return s.lock + "-" + suffix
}

// delete deletes queue A or B of the slot.
func (s *scene) delete(letter string) {
	s.t.Helper()
	s.must(s.broker.DeleteQueue(context.Background(), "/", s.queue("1-"+letter)))
}

// forget takes queue B of the slot away without a word to its holder.
func (s *scene) forget() {
	s.t.Helper()
	s.must(s.broker.ForgetQueue(context.Background(), "/", s.queue("1-B")))
}

func (s *scene) batons() string { return s.lock + "-W" }

func (s *scene) deleteBatons() {
	s.t.Helper()
	s.must(s.broker.DeleteQueue(context.Background(), "/", s.batons()))
}

// junk fills the queue of batons with what is none: more than fits into it.
func (s *scene) junk() {
	s.t.Helper()
	s.must(s.broker.Fill(context.Background(), "/", s.batons(), "junk", 150))
}

func TestNoFaultMakesCommandsOverlap(t *testing.T) { tryAll(t, faults, 3, 5) }

// tryAll tries faults with so many contenders each, or as many as they need.
func tryAll(t *testing.T, faults []fault, numbers ...int) {
	for _, f := range faults {
		for _, contenders := range numbers {
			contenders = max(contenders, f.stage.slots+2)
			t.Run(fmt.Sprintf("%s, %d contenders", f.name, contenders), func(t *testing.T) {
				f.tryOften(t, rabbit, contenders)
			})
		}
	}
}

func (f fault) tryOften(t *testing.T, broker *brokertest.Broker, contenders int) {
	r := results.row(f.name, contenders)
	for range rounds {
		t.Run("", func(t *testing.T) { f.try(t, broker, contenders, r) })
	}
	if f.kept && r.kept < r.runs {
		t.Errorf("the holder's command went on in %d of %d runs", r.kept, r.runs)
	}
}

func (f fault) try(t *testing.T, broker *brokertest.Broker, contenders int, r *row) {
	st := f.stage
	st.contenders = contenders
	st.flags = append(short, st.flags...)
	s := open(t, broker, st)
	clean(t, f.play(s, r))
}

// play has the fault come and go, waits until a command runs afterwards, has the
// lock handed over once more, and judges.
func (f fault) play(s *scene, r *row) verdict {
	s.t.Helper()
	at, struck := history.Now(), time.Now()
	healed := false
	heal := f.strike(s, s.holder())
	mend := func() {
		if heal != nil && !healed {
			healed = true
			heal()
		}
	}
	defer mend() // also if the test gives up
	if f.lasting > 0 {
		time.Sleep(f.lasting)
	} else {
		s.await("the next command runs", func() bool { return s.nextRuns(at) })
	}
	mend()
	after := history.Now() + int64(cmp.Or(f.watched, 500*time.Millisecond))
	s.t.Logf("%s with %d contenders struck at %s", f.name, s.stage.contenders, struck.UTC().Format("15:04:05.000"))
	return s.conclude(r, at, after)
}

// conclude waits until all slots have commands after a fault that was over at after, has
// the lock handed over once more, ends the scene and judges. The fault struck at at.
func (s *scene) conclude(r *row, at, after int64) verdict {
	s.t.Helper()
	s.await("all slots have commands after the fault", func() bool { return s.alive(after) })
	over := history.Now()
	if !s.stage.broken {
		s.handOver()
	}
	v := s.end()
	r.add(v, at, over)
	return v
}
