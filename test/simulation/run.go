package simulation

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"berth/test/simulation/history"
)

// Result is what has come of a simulation.
type Result struct {
	History *history.History
	Took    time.Duration // of the simulation's time
	Faults  int           // that have come
}

// Run simulates a plan.
func Run(t *testing.T, p Plan) (result Result) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		w := newWorld(p, p.Verbose)
		w.play()
		result = Result{History: w.history, Took: w.now(), Faults: len(p.Faults)}
	})
	return result
}

// patience is for how long the last commands may wait for their slots after all faults: for the longest lease that there
// is, twice, and for as long as all of them take.
const patience = 15 * time.Minute

// play is a simulation from beginning to end.
func (w *world) play() {
	defer w.cluster.Close()
	w.administer()
	for i, c := range w.plan.Contenders {
		w.hosts = append(w.hosts, newHost(w, i, c))
	}
	for _, h := range w.hosts {
		go h.live()
	}
	w.befall()
	w.settle()
	w.leave()
}

// befall has all faults come, one after another.
func (w *world) befall() {
	for _, f := range w.plan.Faults {
		time.Sleep(f.After)
		w.strike(f)
	}
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

// strike has a fault come and end.
func (w *world) strike(f Fault) {
	h := w.hosts[f.Host]
	if f.Step != "" {
		if of := w.await(f); of != nil {
			h = of.host
		}
		time.Sleep(f.Then)
	}
	for _, k := range faults {
		if k.name != f.Name {
			continue
		}
		w.mu.Lock()
		w.note("world", fmt.Sprintf("--- %s", f))
		var end func()
		if k.host != nil {
			end = k.host(w, h, f)
		} else {
			for _, h := range w.hosts {
				if h.berth != nil {
					w.history.Windows.Strike(h.berth.name, f.Name, false)
				}
			}
		}
		w.mu.Unlock()
		if k.broker != nil {
			end = k.broker(w, f)
		}
		time.Sleep(f.For)
		w.mu.Lock()
		w.note("world", "--- "+f.Name+" is over")
		if k.host != nil && end != nil {
			end()
		}
		w.mu.Unlock()
		if k.broker != nil && end != nil {
			end()
		}
	}
}

// trap waits for a step.
type trap struct {
	step   string
	left   int
	sprung chan *task // has room for one
}

// await returns who has made the step that a fault waits for, nil if that does not come for a while.
func (w *world) await(f Fault) *task {
	t := &trap{step: f.Step, left: f.Nth, sprung: make(chan *task, 1)}
	w.mu.Lock()
	w.trap = t
	w.mu.Unlock()
	select {
	case of := <-t.sprung:
		return of
	case <-time.After(30 * time.Second):
		w.mu.Lock()
		defer w.mu.Unlock()
		w.trap = nil
		return nil
	}
}

// spring is for a step that was made. The caller has mu.
func (w *world) spring(of *task, step string) {
	t := w.trap
	if t == nil || t.step != step || of.host.number >= len(w.hosts) {
		return
	}
	if t.left--; t.left <= 0 {
		w.trap = nil
		t.sprung <- of
	}
}

// settle waits until everybody has had a slot once more.
func (w *world) settle() {
	enough := time.NewTimer(patience)
	defer enough.Stop()
	for _, h := range w.hosts {
		select {
		case <-h.done:
		case <-enough.C:
			w.mu.Lock()
			w.history.Violate(w.now(), h.name, "still waits for a slot, %s after the last fault; its berth is %s", patience,
				h.describe())
			for _, h := range w.hosts {
				w.started(h)
			}
			w.mu.Unlock()
			return
		}
	}
}

// started has a host end that still waits. The caller has mu.
func (w *world) started(h *host) {
	h.started = 1
	if h.berth != nil {
		h.berth.kill("killed, because the simulation ends")
	}
}

// describe says what its berth does. The caller has world.mu.
func (h *host) describe() string {
	if h.berth == nil {
		return "not there"
	}
	return string(h.berth.state)
}

// leave waits for what is left of all processes, and looks at what they have left behind.
func (w *world) leave() {
	for _, h := range w.hosts {
		<-h.done
	}
	w.ghosts.Wait()
	for _, h := range w.hosts {
		for _, g := range h.guards {
			<-g.over
		}
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	w.inspect()
}
