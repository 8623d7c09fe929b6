package faults

import (
	"context"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// asking has somebody run a command of berth about the lock again and again, with a pause between two, until it is
// ended. What becomes of the command is nobody's business: the broker may be away.
func (s *scene) asking(pause time.Duration, command ...string) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var under sync.WaitGroup
	under.Go(func() {
		for ctx.Err() == nil {
			cmd := exec.CommandContext(ctx, binary, append(command, "--mutex", s.lock)...)
			cmd.Env = append(ownEnvironment(), "BERTH_BROKER="+s.broker.URL())
			_ = cmd.Run()
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	})
	end = func() {
		cancel()
		under.Wait()
	}
	s.t.Cleanup(end)
	return end
}

// while has a fault strike while somebody asks.
func while(pause time.Duration, command string, strike func(*scene, *contender) func(),
) func(*scene, *contender) func() {
	return func(s *scene, h *contender) func() {
		end := s.asking(pause, command)
		heal := strike(s, h)
		return func() {
			if heal != nil {
				heal()
			}
			end()
		}
	}
}

// looked is a fault that comes while somebody looks at the lock all the time.
func looked(f fault) fault {
	f.name = "looked at, " + f.name
	f.strike = while(50*time.Millisecond, "status", f.strike)
	return f
}

// asked is a fault that comes while the holder is told again and again to step down.
func asked(f fault) fault {
	f.name, f.kept = "told to step down, "+f.name, false
	f.strike = while(300*time.Millisecond, "step-down", f.strike)
	return f
}

var (
	aReset = fault{name: "reset of everybody", kept: true, lasting: time.Second,
		strike: plain(func(s *scene, _ *contender) {
			for _, c := range s.all {
				c.relay.reset()
			}
		})}
	aKill = fault{name: "supervisor killed", lasting: time.Second,
		strike: plain(func(_ *scene, h *contender) { h.signal(syscall.SIGKILL) })}
	aStop = fault{name: "supervisor stopped and continued", lasting: 2 * lease,
		strike: func(_ *scene, h *contender) func() {
			h.signal(syscall.SIGSTOP)
			return func() { h.signal(syscall.SIGCONT) }
		}}
	aPause = fault{name: "broker stopped and continued", lasting: 2 * lease,
		strike: func(s *scene, _ *contender) func() {
			s.must(s.broker.Pause())
			return func() { s.must(s.broker.Continue()) }
		}}
)

// asking are faults that come while others ask the lock something, or while a hook runs.
var asking = []fault{
	looked(aReset),
	looked(aKill),
	looked(aStop),
	looked(aPause),
	asked(aReset),
	asked(aKill),
	asked(aStop),
}

// hanging are faults of a holder whose hook hangs. The hook is a witness too: it is in the slot, as the command is.
func hanging() []fault {
	hung := stage{flags: []string{"--on-release", command, "--hook-timeout", "3s"}}
	leaves := func(s *scene, h *contender) {
		h.signal(syscall.SIGTERM)
		s.await("on_release has begun", func() bool { return h.logged("hook=on_release") > 0 })
	}
	return []fault{
		{name: "on_release hangs, supervisor killed", stage: hung, strike: plain(func(s *scene, h *contender) {
			leaves(s, h)
			h.signal(syscall.SIGKILL)
		})},
		{name: "on_release hangs, reset", stage: hung, strike: plain(func(s *scene, h *contender) {
			leaves(s, h)
			h.relay.reset()
		})},
		{name: "on_release hangs, silent partition", stage: hung, strike: func(s *scene, h *contender) func() {
			leaves(s, h)
			h.relay.silence(toBroker, fromBroker)
			return h.relay.heal
		}},
		{name: "on_lost hangs, supervisor killed", stage: stage{flags: []string{"--on-lost", "sleep 1000"}},
			strike: plain(func(s *scene, h *contender) {
				s.delete("B")
				s.await("on_lost has begun", func() bool { return h.logged("hook=on_lost") > 0 })
				h.signal(syscall.SIGKILL)
			})},
	}
}

// fault: reset, supervisor-killed, supervisor-stopped, broker-silent
func TestNoFaultWhileOthersAskMakesCommandsOverlap(t *testing.T) { tryAll(t, asking, 3) }

// fault: supervisor-killed, reset, partition, b-deleted
func TestNoFaultWhileAHookHangsMakesCommandsOverlap(t *testing.T) { tryAll(t, hanging(), 3) }
