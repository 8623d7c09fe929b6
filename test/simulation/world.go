package simulation

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"berth/test/simulation/history"
	"berth/test/simulation/rabbit"
)

// world is one simulation. Use newWorld, in a bubble.
type world struct {
	plan  Plan
	began time.Time

	// cluster has a lock of its own, which is taken after mu and never before it.
	cluster *rabbit.Cluster

	mu      sync.Mutex // guards what follows, and what belongs to hosts, tasks and links
	random  *rand.Rand
	history *history.History
	hosts   []*host
	links   map[*link]bool
	numbers int
	final   bool // commands end soon, and no berth is started again
	traps   []*trap
	ending  bool                  // all is killed that is left
	used    map[int]time.Duration // when a slot was first used
	busy    map[string]bool       // what faults have that others cannot have
	blows   []*blow               // the faults that have come
	last    *host                 // that the last one has befallen
	noted   []*host               // who has recorded itself, the last one first
	slow    time.Duration         // how much later at most a message inside of the broker comes
	quiet   time.Duration         // when the last fault was over
	free    map[int]time.Duration // since when a slot is free; it is not in there while it is held

	ghosts sync.WaitGroup // all berths, those that were killed included
}

// newWorld returns the world of a plan. It is not populated yet.
func newWorld(plan Plan, keep bool) *world {
	time.Sleep(time.Until(time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)))
	w := &world{
		plan: plan, began: time.Now(), random: rand.New(rand.NewPCG(plan.Seed, 1)), history: history.New(keep),
		links: map[*link]bool{}, free: map[int]time.Duration{},
		busy: map[string]bool{}, used: map[int]time.Duration{},
	}
	w.history.Silent = plan.Silent
	w.cluster = rabbit.New(rabbit.Config{
		Version: plan.Version, Nodes: plan.Nodes, Step: time.Microsecond, Delay: w.delay,
		NetTick: 60 * time.Second, Heartbeat: time.Minute,
	})
	return w
}

// now returns the time since the beginning.
func (w *world) now() time.Duration { return time.Since(w.began) }

// number returns a number that nothing else has. The caller has mu.
func (w *world) number() int {
	w.numbers++
	return w.numbers
}

// latency returns how long the next message takes on the network. The caller has mu.
func (w *world) latency() time.Duration {
	least := w.plan.Latency
	late := time.Duration(w.random.Int64N(int64(least)))
	if w.random.IntN(50) == 0 {
		late *= 20
	}
	return least + late
}

// delay returns how long the next message takes inside of the broker.
func (w *world) delay() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return 10*time.Microsecond + time.Duration(w.random.Int64N(int64(200*time.Microsecond+w.slow)))
}

// serve has a node serve a connection.
func (w *world) serve(node int, conn net.Conn) error { return w.cluster.Serve(node, conn) }

// note adds to the history. The caller has mu.
func (w *world) note(who, format string, args ...any) {
	w.history.Note(w.now(), who, format, args...)
}

// tell adds a message to the history, and springs traps. The caller has mu.
func (w *world) tell(l *link, m history.Message, up bool) {
	if m.Method == "heartbeat" {
		return
	}
	mark := "<-"
	if up {
		mark = "->"
	}
	if l.of.killed {
		return
	}
	if !w.plan.Silent {
		w.note(l.of.name, "%s %s %s", mark, l, m)
	}
	w.step(l.of, mark+" "+m.Step())
}

// step is for a step of the protocol. The caller has mu.
func (w *world) step(of *task, step string) {
	w.history.Windows.Step(w.now(), of.name, step)
	switch step {
	case recording, "start", releasing:
		w.noted = slices.DeleteFunc(w.noted, func(h *host) bool { return h == of.host })
		if step == recording {
			w.noted = append([]*host{of.host}, w.noted...)
		}
	}
	w.spring(of, step)
}

// ordered returns the keys of a map in the order of their numbers: Go's is random.
func ordered[K comparable](all map[K]bool, number func(K) int) []K {
	return slices.SortedFunc(maps.Keys(all), func(a, b K) int { return cmp.Compare(number(a), number(b)) })
}
