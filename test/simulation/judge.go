package simulation

import (
	"strings"
	"time"
)

// noteStart is for a command that starts in a slot. The caller has mu.
func (w *world) noteStart(slot int) {
	if _, used := w.used[slot]; !used {
		w.used[slot] = w.now()
	}
	since, free := w.free[slot]
	delete(w.free, slot)
	if !free || !w.final {
		return
	}
	since = max(since, w.quiet+settled)
	if took := w.now() - since; took > prompt && w.waiting() > 0 {
		w.history.Violate(w.now(), "world", "slot %d was free for %s, and waited for", slot, took)
	}
}

const (
	// settled is after which time without faults slots are handed on promptly.
	settled = 5 * time.Minute
	// prompt is within which time a slot is taken then that was given back.
	prompt = 5 * time.Second
)

// waiting returns how many berths wait for a slot. The caller has mu.
func (w *world) waiting() (n int) {
	for _, h := range w.hosts {
		if h.berth != nil && h.started == 0 {
			n++
		}
	}
	return n
}

// noteDeath is for a command whose tree is dead. The caller has mu.
func (w *world) noteDeath(c *command, why string) { w.free[c.span.Slot] = w.now() }

// suspend is for the commands of a host that is stopped as a whole, or goes on. The caller has world.mu.
func (h *host) suspend(on bool) {
	for _, g := range h.guards {
		if g.command != nil && !g.command.dead {
			h.w.history.Suspend(h.w.now(), g.command.span, on)
		}
	}
	if !on {
		h.w.later(grace, func() {
			h.w.mu.Lock()
			defer h.w.mu.Unlock()
			for _, g := range h.guards {
				if g.command != nil && !g.command.dead {
					h.w.history.Alone(h.w.now(), g.command.span)
				}
			}
		})
	}
}

// grace is for how long a command may run on beside another one, on a host that has just been thawed.
const grace = 20 * time.Millisecond

// inspect looks at what is left on the broker when all have ended.
func (w *world) inspect() {
	queues, connections := w.cluster.Queues(), w.cluster.Connections()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range connections {
		w.history.Violate(w.now(), "broker", "the connection %q is left", c.Name)
	}
	for _, q := range queues {
		if q.Exclusive || q.Consumers > 0 || strings.HasSuffix(q.Name, "-B") {
			w.history.Violate(w.now(), "broker", "queue %q is left: %+v", q.Name, q)
		}
		if most := 100; q.Ready > most { // of batons a queue keeps so many
			w.history.Violate(w.now(), "broker", "queue %q has %d messages", q.Name, q.Ready)
		}
	}
	if _, running := w.history.Spans(); running > 0 {
		w.history.Violate(w.now(), "world", "%d commands are left", running)
	}
}
