package simulation

import (
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
		result = Result{History: w.history, Took: w.now(), Faults: len(w.blows)}
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

// settle waits until everybody has had a slot once more.
func (w *world) settle() {
	enough := time.NewTimer(patience)
	defer enough.Stop()
	for _, h := range w.hosts {
		select {
		case <-h.done:
		case <-enough.C:
			w.mu.Lock()
			w.ending = true
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
