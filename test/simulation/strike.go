package simulation

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// The steps with which a contender records itself, and that it is over.
const (
	recording = "-> basic.publish T held"
	releasing = "-> basic.publish T released"
)

// befall has all faults come.
func (w *world) befall() {
	var going sync.WaitGroup
	for _, f := range w.plan.Faults {
		if !f.Beside {
			going.Wait()
		}
		time.Sleep(f.After)
		w.strike(f, &going)
	}
	going.Wait()
	time.Sleep(10 * time.Second)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("world", "no faults come any more")
	w.final, w.quiet = true, w.now()
	for _, h := range w.hosts {
		h.started = 0
		for _, g := range h.guards {
			if g.command != nil && !g.command.dead {
				g.command.endSoon("by itself", 0)
			}
		}
		if h.cfg.Restart != "never" {
			h.term()
		}
	}
}

// strike has a fault come, and end later.
func (w *world) strike(f Fault, going *sync.WaitGroup) {
	var of *task
	if f.Step != "" {
		of = w.await(f)
		time.Sleep(f.Then)
	}
	k := kindOf(f.Name)
	w.mu.Lock()
	h := w.whom(f, of)
	busy := k.one
	if k.host != nil {
		busy = fmt.Sprint(k.one, h.number)
	}
	if k.one != "" && w.busy[busy] {
		w.mu.Unlock()
		return
	}
	w.busy[busy] = true
	if k.host != nil {
		w.last = h
	} else if of != nil {
		w.last = of.host
	}
	b := w.blow(k, h, f)
	var end func()
	if k.host != nil {
		end = k.host(w, h, f)
	}
	w.mu.Unlock()
	if k.broker != nil {
		end = k.broker(w, f)
	}
	going.Go(func() {
		time.Sleep(f.For)
		if k.broker != nil && end != nil {
			end()
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if k.host != nil && end != nil {
			end()
		}
		w.note("world", "--- %s is over", f.Name)
		w.busy[busy] = k.once
		b.over = w.now()
	})
}

func kindOf(name string) kindOfFault {
	return faults[slices.IndexFunc(faults, func(k kindOfFault) bool { return k.name == name })]
}

// blow notes a fault that comes. The caller has mu.
func (w *world) blow(k kindOfFault, h *host, f Fault) *blow {
	b := &blow{kind: k, fault: f, over: -1}
	struck := w.hosts
	if k.host != nil {
		b.host = h
		struck = []*host{h}
	}
	w.note("world", "--- %s befalls %s", f, b.whom())
	w.blows = append(w.blows, b)
	for _, h := range struck {
		if h.berth != nil {
			w.history.Windows.Strike(h.berth.name, false)
		}
		for _, g := range h.guards {
			if !g.killed {
				w.history.Windows.Strike(g.name, false)
			}
		}
	}
	return b
}

// whom returns whom a fault befalls, if of has made the step that it waited for; nil: nobody has. The caller has mu.
func (w *world) whom(f Fault, of *task) *host {
	switch f.Whom {
	case maker:
		if of != nil {
			return of.host
		}
	case same:
		if w.last != nil {
			return w.last
		}
	case holder:
		for _, h := range w.hosts {
			if h.runsIn(w.slot(f)) {
				return h
			}
		}
	case successor:
		for _, h := range w.noted {
			if h.berth != nil && !h.runsIn(0) && (of == nil || of.host != h) {
				return h
			}
		}
	}
	return w.hosts[f.Host]
}

// runsIn reports whether a command of a host runs in a slot, 0: in any. The caller has world.mu.
func (h *host) runsIn(slot int) bool {
	return slices.ContainsFunc(h.guards, func(g *guard) bool {
		return g.command != nil && !g.command.dead && (slot == 0 || g.command.span.Slot == slot)
	})
}

// trap waits for a step.
type trap struct {
	fault  Fault
	left   int
	sprung chan *task // has room for one
}

// await returns who has made the step that a fault waits for, nil if that does not come for a while.
func (w *world) await(f Fault) *task {
	patience := 30 * time.Second
	if f.Beside {
		patience = 5 * time.Second
	}
	t := &trap{fault: f, left: f.Nth, sprung: make(chan *task, 1)}
	w.mu.Lock()
	w.traps = append(w.traps, t)
	w.mu.Unlock()
	select {
	case of := <-t.sprung:
		return of
	case <-time.After(patience):
		w.mu.Lock()
		defer w.mu.Unlock()
		w.traps = slices.DeleteFunc(w.traps, func(o *trap) bool { return o == t })
		return nil
	}
}

// spring is for a step that was made. The caller has mu.
func (w *world) spring(of *task, step string) {
	if of.host.number >= len(w.hosts) {
		return
	}
	w.traps = slices.DeleteFunc(w.traps, func(t *trap) bool {
		if t.fault.Step != step || t.fault.By == holder && !of.host.runsIn(0) || t.fault.By == successor && of.host.runsIn(0) {
			return false
		}
		t.left--
		if t.left > 0 {
			return false
		}
		t.sprung <- of
		return true
	})
}
