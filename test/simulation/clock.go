package simulation

import (
	"time"

	"berth/internal/boottime"
)

// booted is what a host's clock reads when the simulation begins.
const booted = boottime.Instant(time.Hour)

// clock is that of a host: all of its processes read it, and it can stand still. world.mu guards it.
type clock struct {
	w      *world
	lost   time.Duration // for which it has stood still
	frozen time.Duration // since when it stands still, in the world's time; 0: it goes
	timers map[*timer]bool
}

// now returns what it reads. The caller has world.mu.
func (c *clock) now() boottime.Instant {
	at := c.w.now()
	if c.frozen != 0 {
		at = c.frozen
	}
	return booted.Add(at - c.lost)
}

// freeze has it stand still. The caller has world.mu.
func (c *clock) freeze() {
	if c.frozen == 0 {
		c.frozen = c.w.now()
	}
}

// thaw has it go on from where it stood. The caller has world.mu.
func (c *clock) thaw() {
	if c.frozen != 0 {
		c.lost += c.w.now() - c.frozen
		c.frozen = 0
	}
	c.rouse()
}

// rouse sets all timers again, because the clock or a process goes on. The caller has world.mu.
func (c *clock) rouse() {
	for _, t := range ordered(c.timers, func(t *timer) int { return t.number }) {
		t.arm()
	}
}

// timer is one on a host's clock, for one process. It tells nothing while that is stopped. world.mu guards it.
type timer struct {
	number int
	clock  *clock
	of     *task
	at     boottime.Instant // 0: it is not set
	under  *time.Timer
	c      chan struct{}
}

// newTimer returns one that is not set. The caller has world.mu.
func (c *clock) newTimer(of *task) *timer {
	t := &timer{number: c.w.number(), clock: c, of: of, c: make(chan struct{}, 1)}
	c.timers[t] = true
	return t
}

func (t *timer) set(at boottime.Instant) {
	t.clock.w.mu.Lock()
	defer t.clock.w.mu.Unlock()
	t.at = at
	t.arm()
}

// arm has it look again when its moment may have come. The caller has world.mu.
func (t *timer) arm() {
	if t.under != nil {
		t.under.Stop()
	}
	if t.at == 0 || t.clock.frozen != 0 || t.of.stopped != nil || t.of.killed {
		return
	}
	t.under = t.clock.w.later(max(0, time.Duration(t.at-t.clock.now())), t.look)
}

func (t *timer) look() {
	t.clock.w.mu.Lock()
	defer t.clock.w.mu.Unlock()
	switch {
	case t.at == 0 || t.clock.frozen != 0 || t.of.stopped != nil || t.of.killed:
	case t.clock.now() < t.at:
		t.arm()
	default:
		t.at = 0
		select {
		case t.c <- struct{}{}:
		default:
		}
	}
}

func (t *timer) end() {
	t.clock.w.mu.Lock()
	defer t.clock.w.mu.Unlock()
	t.at = 0
	if t.under != nil {
		t.under.Stop()
	}
	delete(t.clock.timers, t)
}

// source is the clock of one process, for boottime.From.
type source struct{ of *task }

func (s source) Now() boottime.Instant {
	w := s.of.host.w
	w.mu.Lock()
	defer w.mu.Unlock()
	return s.of.host.clock.now()
}

func (s source) NewTimer() *boottime.Timer {
	w := s.of.host.w
	w.mu.Lock()
	defer w.mu.Unlock()
	t := s.of.host.clock.newTimer(s.of)
	return boottime.TimerOf(t.c, t.set, t.end)
}
