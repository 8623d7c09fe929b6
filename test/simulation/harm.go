package simulation

import (
	"fmt"
	"slices"
	"time"

	"berth/lock/rabbit"
)

// stop stops all processes of a host, and its clock maybe. The caller has world.mu.
func (h *host) stop(d time.Duration, clock bool) (end func()) {
	var all []*task
	if h.berth != nil {
		all = append(all, h.berth.task)
	}
	for _, g := range h.guards {
		if !g.killed {
			all = append(all, g.task)
		}
	}
	h.frozen++
	for _, t := range all {
		t.stop(d)
	}
	if clock {
		h.clock.freeze()
	}
	h.suspend(true)
	return func() {
		h.frozen--
		if clock {
			h.clock.thaw()
		}
		for _, t := range all {
			t.goOn()
		}
		if h.berth != nil && !slices.Contains(all, h.berth.task) { // it was to start meanwhile
			h.berth.goOn()
		}
		h.suspend(false)
	}
}

// reset resets all connections of a host. The caller has world.mu.
func (h *host) reset(late time.Duration) {
	for _, l := range h.links() {
		l.reset(late)
	}
}

// links returns the connections of a host that are open.
func (h *host) links() (all []*link) {
	for _, l := range ordered(h.w.links, func(l *link) int { return l.number }) {
		if l.of.host == h {
			all = append(all, l)
		}
	}
	return all
}

// block has nothing get through between a host and the broker. The caller has world.mu.
func (h *host) block(up, down bool) (end func()) {
	add := func(n int) {
		for _, r := range h.routes {
			if up {
				r.up += n
			}
			if down {
				r.down += n
			}
		}
	}
	add(1)
	return func() {
		add(-1)
		for _, l := range h.links() {
			l.up.resume()
			l.down.resume()
		}
	}
}

// queue returns the name of a queue of the slot that a fault concerns.
func (w *world) queue(f Fault, letter string) string {
	of := "work"
	switch {
	case w.plan.QueueType == rabbit.QueuesClassic:
		of = "work-K"
	case w.plan.QueueType == rabbit.QueuesQuorum:
		of = "work-Q"
	}
	return fmt.Sprintf("%s-%d-%s", of, w.slot(f), letter)
}

func (w *world) slot(f Fault) int { return 1 + f.Host%w.plan.Slots }

// old reports whether a command has run for a while in the slot that a fault concerns: docs/safety.md promises nothing
// where a ledger is lost before its holder has the slot's queue, or while nobody has it.
func (w *world) old(f Fault) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	since, runs := w.history.Running(w.slot(f))
	return runs && w.now()-since > 2*time.Second
}

// lose has the node learn at once that the connections of a host are reset, and the host late. The caller has world.mu.
func (h *host) lose(late time.Duration) {
	for _, l := range h.links() {
		l.lose(late)
	}
}

// slow has everything come later. The caller has world.mu.
func (h *host) slow(late time.Duration) (end func()) {
	add := func(d time.Duration) {
		for _, r := range h.routes {
			r.slow += d
		}
	}
	add(late)
	return func() { add(-late) }
}

// setSlow has each message inside of the broker take up to a tenth of that longer.
func (w *world) setSlow(late time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow = late / 10
}

// limit sets a policy that limits what ledgers keep.
func (w *world) limit(key string, most int) (end func()) {
	const ledgers = "-T$"
	w.cluster.SetPolicy(ledgers, map[string]any{key: most})
	return func() { w.cluster.SetPolicy(ledgers, nil) }
}
