package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"berth/lock/rabbit"
	simulated "berth/test/simulation/rabbit"
)

// Fault is something that befalls a host or the broker.
type Fault struct {
	Name  string
	Host  int           // whom it befalls: by its number, or whoever makes the step
	Node  int           // which node it concerns
	After time.Duration // since the last fault was over
	For   time.Duration // how long it lasts
	Late  time.Duration // how much later the other side learns of it
	Up    bool          // which direction it concerns

	// Step is after which step of the protocol it comes, the Nth time that this is made from now on. "": it does not
	// wait for one.
	Step string
	Nth  int
	Then time.Duration // after which time it comes then
}

// String returns what a history calls it.
func (f Fault) String() string {
	text := fmt.Sprintf("%s (host %d, node %d, for %s)", f.Name, f.Host, f.Node, f.For)
	if f.Step != "" {
		text += fmt.Sprintf(" at %q, %d", f.Step, f.Nth)
	}
	return text
}

// kindOfFault is what a fault does. It returns what ends it; nil: it is over at once.
type kindOfFault struct {
	name    string
	longest time.Duration // 0: it does not last

	// What befalls a host is done with world.mu, what befalls the broker without.
	host   func(w *world, h *host, f Fault) (end func())
	broker func(w *world, f Fault) (end func())
	nodes  int // it takes so many
}

var faults = []kindOfFault{
	{name: "kill berth", host: func(w *world, h *host, _ Fault) func() {
		if h.berth != nil {
			h.berth.kill("killed")
		}
		return nil
	}},
	{name: "kill guard", host: func(w *world, h *host, _ Fault) func() {
		if len(h.guards) > 0 {
			h.guards[len(h.guards)-1].die("killed")
		}
		return nil
	}},
	{name: "stop berth", longest: 40 * time.Second, host: func(w *world, h *host, f Fault) func() {
		b := h.berth
		if b == nil {
			return nil
		}
		b.stop(f.For)
		return b.goOn
	}},
	{name: "stop host", longest: 40 * time.Second, host: func(w *world, h *host, f Fault) func() {
		return h.stop(f.For, false)
	}},
	{name: "pause machine", longest: 400 * time.Millisecond, host: func(w *world, h *host, f Fault) func() {
		return h.stop(f.For, true)
	}},
	{name: "reset", host: func(w *world, h *host, f Fault) func() {
		h.reset(f.Late)
		return nil
	}},
	{name: "reset and cut off", longest: 40 * time.Second, host: func(w *world, h *host, f Fault) func() {
		h.reset(f.Late)
		return h.block(true, true)
	}},
	{name: "lost behind and cut off", longest: 40 * time.Second, host: func(w *world, h *host, f Fault) func() {
		for _, l := range h.links() {
			l.lose(f.Late)
		}
		return h.block(true, true)
	}},
	{name: "partition", longest: 40 * time.Second, host: func(w *world, h *host, _ Fault) func() {
		return h.block(true, true)
	}},
	{name: "one-way partition", longest: 40 * time.Second, host: func(w *world, h *host, f Fault) func() {
		return h.block(f.Up, !f.Up)
	}},
	{name: "slow network", longest: 40 * time.Second, host: func(w *world, h *host, f Fault) func() {
		for _, r := range h.routes {
			r.slow += f.Late
		}
		return func() {
			for _, r := range h.routes {
				r.slow -= f.Late
			}
		}
	}},
	{name: "term", host: func(w *world, h *host, _ Fault) func() {
		h.term()
		return nil
	}},
	{name: "restart broker", broker: func(w *world, f Fault) func() {
		w.cluster.Restart(f.Node, false)
		return nil
	}},
	{name: "broker away", longest: 40 * time.Second, broker: func(w *world, f Fault) func() {
		w.cluster.Kill(f.Node)
		return func() { w.cluster.Start(f.Node) }
	}},
	{name: "broker stopped in order", longest: 20 * time.Second, broker: func(w *world, f Fault) func() {
		w.cluster.Stop(f.Node)
		return func() { w.cluster.Start(f.Node) }
	}},
	{name: "broker silent", longest: 40 * time.Second, broker: func(w *world, f Fault) func() {
		w.cluster.Hang(f.Node)
		return func() { w.cluster.Resume(f.Node) }
	}},
	{name: "connections closed", broker: func(w *world, f Fault) func() {
		w.cluster.CloseConnections("closed by an operator")
		return nil
	}},
	{name: "alarm", longest: 60 * time.Second, broker: func(w *world, f Fault) func() {
		w.cluster.Alarm(true)
		return func() { w.cluster.Alarm(false) }
	}},
	{name: "line purged", broker: func(w *world, f Fault) func() {
		w.cluster.PurgeQueue("work-W")
		return nil
	}},
	{name: "line deleted", broker: func(w *world, f Fault) func() {
		w.cluster.DeleteQueue("work-W")
		return nil
	}},
	{name: "slot's queue lost", broker: func(w *world, f Fault) func() {
		w.cluster.LoseQueue(w.queue(f, "B"))
		return nil
	}},
	{name: "ledger purged", longest: 5 * time.Second, broker: func(w *world, f Fault) func() {
		if w.old(f) {
			w.cluster.PurgeQueue(w.queue(f, "T"))
		}
		return nil
	}},
	{name: "ledger deleted", longest: 5 * time.Second, broker: func(w *world, f Fault) func() {
		if w.old(f) {
			w.cluster.DeleteQueue(w.queue(f, "T"))
		}
		return nil
	}},
	{name: "tokens purged", broker: func(w *world, f Fault) func() {
		w.cluster.PurgeQueue("work-K")
		return nil
	}},
	{name: "tokens deleted", broker: func(w *world, f Fault) func() {
		w.cluster.DeleteQueue("work-K")
		return nil
	}},
	{name: "split", longest: 90 * time.Second, nodes: 3, broker: func(w *world, f Fault) func() {
		w.cluster.Split([]int{f.Node}, []int{(f.Node + 1) % 3, (f.Node + 2) % 3})
		return func() {
			w.cluster.Heal()
			if w.plan.Version != simulated.V4_3 { // on Mnesia both sides go on until an operator starts one of them anew
				w.cluster.Restart(f.Node, false)
			}
		}
	}},
}

func drawFault(r *rand.Rand, p Plan) Fault {
	var possible []kindOfFault
	for _, k := range faults {
		if k.nodes <= p.Nodes {
			possible = append(possible, k)
		}
	}
	k := possible[r.IntN(len(possible))]
	f := Fault{
		Name: k.name, Host: r.IntN(len(p.Contenders)), Node: r.IntN(p.Nodes), Up: r.IntN(2) == 0,
		After: time.Duration(r.Int64N(int64(20 * time.Second))), Late: drawDuration(r, 4*time.Second),
	}
	if k.longest > 0 {
		f.For = time.Millisecond + drawDuration(r, k.longest)
	}
	if r.IntN(3) > 0 {
		f.Step, f.Nth = steps[r.IntN(len(steps))], 1+r.IntN(4)
		f.Then = drawDuration(r, 8*p.Latency)
	}
	return f
}

// drawDuration returns one that is short as often as it is long.
func drawDuration(r *rand.Rand, longest time.Duration) time.Duration {
	if r.IntN(3) == 0 {
		return 0
	}
	for most := longest; ; most /= 4 {
		if r.IntN(3) > 0 || most < time.Millisecond {
			return time.Duration(r.Int64N(int64(most)))
		}
	}
}

// steps are those of the protocol that faults wait for.
var steps = []string{
	"-> queue.declare B", "<- queue.declare-ok B", "-> queue.declare T", "<- queue.declare-ok T", "-> basic.consume T",
	"<- basic.consume-ok", "-> basic.publish T held", "<- basic.deliver T held", "-> basic.publish T released",
	"<- basic.deliver T released", "-> basic.cancel", "<- basic.cancel-ok", "<- basic.cancel", "-> basic.nack",
	"-> basic.ack", "<- basic.ack", "-> queue.delete B", "<- queue.delete-ok", "-> basic.consume W", "<- basic.deliver W",
	"-> basic.publish W", "order start", "start", "will", "-> basic.consume K", "<- basic.deliver K", "-> basic.consume Q",
	"<- basic.deliver Q", "-> channel.close", "<- channel.close", "-> connection.close", "<- connection.close-ok",
	"<- connection.start", "<- connection.open-ok", "<- basic.qos-ok", "<- basic.deliver T yield", "<- queue.declare-ok W",
	"<- basic.deliver W call", "<- basic.return B", "<- basic.return T released", "-> basic.publish B reclaim",
	"<- basic.deliver B reclaim", "<- connection.blocked", "<- connection.unblocked", "<- connection.close", "<- basic.nack",
	"<- confirm.select-ok", "-> basic.publish B", "<- basic.deliver B",
}

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
	if h.berth != nil {
		h.w.history.Windows.Strike(h.berth.name, "partition", false)
	}
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
