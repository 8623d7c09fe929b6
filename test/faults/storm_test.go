package faults

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"berth/prover/history"
)

// trouble is one of the things that go wrong in a storm. It ends by itself, or with
// what it returns.
type trouble struct {
	name   string
	strike func(s *scene, c *contender) (heal func())
}

// troubles are those under which a holder's tree is dead in time also where several
// come together. The more often one stands here, the more often it comes.
var troubles = []trouble{
	{"told to end", signals(syscall.SIGTERM, 0)},
	{"told to end", signals(syscall.SIGTERM, 0)},
	{"killed", signals(syscall.SIGKILL, 0)},
	{"stopped", signals(syscall.SIGSTOP, syscall.SIGCONT)},
	{"guard killed", plain(func(_ *scene, c *contender) {
		if guard := c.guard(); guard != 0 {
			_ = syscall.Kill(guard, syscall.SIGKILL)
		}
	})},
	{"reset", plain(func(_ *scene, c *contender) { c.relay.reset() })},
	{"reset of everybody", plain(func(s *scene, _ *contender) {
		for _, c := range s.living() {
			c.relay.reset()
		}
	})},
	{"cut off", func(_ *scene, c *contender) func() {
		c.net.drop()
		return c.net.heal
	}},
	{"cut off", func(_ *scene, c *contender) func() {
		c.net.drop()
		return c.net.heal
	}},
}

// signals sends a signal, and another one to heal it; 0: none. A berth that has ended
// gets neither.
func signals(sick, well syscall.Signal) func(*scene, *contender) func() {
	return func(_ *scene, c *contender) func() {
		_ = c.cmd.Process.Signal(sick)
		if well == 0 {
			return nil
		}
		return func() { _ = c.cmd.Process.Signal(well) }
	}
}

// recovery ends a trouble.
type recovery struct {
	at   time.Time
	heal func()
}

// mend ends the troubles whose time is over, and returns the others.
func mend(troubles []recovery, now time.Time) []recovery {
	return slices.DeleteFunc(troubles, func(r recovery) bool {
		over := now.After(r.at)
		if over {
			r.heal()
		}
		return over
	})
}

// Troubles come at random, several at a time, to holders and to waiters.
//
// fault: partition, reset, supervisor-killed, supervisor-stopped, guard-killed
func TestNothingOverlapsInAStorm(t *testing.T) { weather(t, "storm of a minute", stage{}) }

func TestNothingOverlapsInAStormWithThePlainProtocol(t *testing.T) {
	weather(t, "plain protocol: storm of a minute", stage{protocol: plainProtocol})
}

// weather has storms come over a stage.
func weather(t *testing.T, name string, st stage) {
	const (
		storm = time.Minute
		pause = 600 * time.Millisecond // at most, between two troubles
	)
	st.contenders, st.flags, st.namespaces = 5, short, true
	r := results.row(name, st.contenders)
	for range rounds {
		t.Run("", func(t *testing.T) {
			s := open(t, rabbit, st)
			at := history.Now()
			var pending []recovery
			for over := time.Now().Add(storm); time.Now().Before(over); time.Sleep(rand.N(pause)) {
				pending = mend(pending, time.Now())
				for len(s.living()) < st.contenders {
					s.join()
				}
				if heal := s.trouble(); heal != nil {
					pending = append(pending, recovery{time.Now().Add(rand.N(2 * lease)), heal})
				}
			}
			mend(pending, time.Now().Add(time.Hour))
			after := history.Now()
			s.await("a command runs after the storm", func() bool { return s.alive(after) })
			ended := history.Now()
			s.handOver()
			v := s.end()
			clean(t, v)
			r.add(v, at, ended)
			t.Logf("%d commands were run", len(v.Runs))
		})
	}
}

// trouble has something happen to a contender, every second time to a holder.
func (s *scene) trouble() (heal func()) {
	s.t.Helper()
	living := s.living()
	one, c := troubles[rand.N(len(troubles))], living[rand.N(len(living))]
	if rand.N(2) == 0 {
		c = s.running()
	}
	s.t.Logf("%s: berth %s: %s", time.Now().UTC().Format("15:04:05.000"), c.name, one.name)
	return one.strike(s, c)
}
