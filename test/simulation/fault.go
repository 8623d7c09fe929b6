package simulation

import (
	"cmp"
	"fmt"
	"time"

	simulated "berth/test/simulation/rabbit"
)

// Fault is something that befalls a host or the broker.
type Fault struct {
	Name  string
	Whom  role          // whom it befalls
	Host  int           // of which number, for numbered, and by which slot, for a role
	Node  int           // which node it concerns
	After time.Duration // since the last fault was over, or since it came
	For   time.Duration // how long it lasts
	Late  time.Duration // how much later the other side learns of it
	Up    bool          // which direction it concerns
	Most  int           // messages or milliseconds that a policy leaves

	// Beside has it come while the faults before it go on.
	Beside bool

	// Step is after which step of the protocol it comes, the Nth time that By makes it from now on. "": it does not wait
	// for one.
	Step string
	By   role
	Nth  int
	Then time.Duration // after which time it comes then
}

// role is who a contender is at a moment.
type role string

const (
	numbered  role = ""                // it has a number
	maker     role = "who has made it" // the step that was waited for
	same      role = "the same"        // that the last fault has befallen
	holder    role = "holder"          // whose command runs in the slot
	successor role = "successor"       // who has recorded itself last, and whose command does not run
)

// String returns what a history calls it.
func (f Fault) String() string {
	text := fmt.Sprintf("%s (%s, host %d, node %d, for %s, late %s, up %t, most %d)", f.Name, cmp.Or(f.Whom, "number"), f.Host,
		f.Node, f.For, f.Late, f.Up, f.Most)
	if f.Step != "" {
		text += fmt.Sprintf(", %s after %q, %d", f.Then, f.Step, f.Nth)
	}
	if f.Beside {
		text += ", beside the others"
	}
	return text
}

// kindOfFault is what a fault does. It returns what ends it; nil: it is over at once.
type kindOfFault struct {
	name    string
	longest time.Duration // 0: it does not last
	least   time.Duration // that it lasts, where it does
	nodes   int           // it takes so many

	losing bool   // it loses records of a ledger
	alone  bool   // no other one may come beside it
	one    string // what two faults cannot have at once: the second one does not come
	once   bool   // nor later
	// What befalls a host is done with world.mu, what befalls the broker without.
	host   func(w *world, h *host, f Fault) (end func())
	broker func(w *world, f Fault) (end func())

	// spares reports whether a command runs on that it befalls, or whose broker. nil: it does not.
	spares func(c *command, f Fault) bool
}

// faults are all kinds. The pages promise something of one loss of records, not of two, and not of one beside the end of
// its holder's connection where the ledger is deleted as a whole. A host's clock may lose less than the margin.
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
	{name: "stop berth", longest: 40 * time.Second, one: "stop", spares: isShort, host: func(w *world, h *host, f Fault) func() {
		b := h.berth
		if b == nil {
			return nil
		}
		b.stop(f.For)
		return b.goOn
	}},
	{name: "stop host", longest: 40 * time.Second, one: "stop", spares: isShort, host: func(w *world, h *host, f Fault) func() {
		return h.stop(f.For, false)
	}},
	{name: "pause machine", longest: 400 * time.Millisecond, one: "stop", once: true, spares: always,
		host: func(w *world, h *host, f Fault) func() { return h.stop(f.For, true) }},
	{name: "reset", spares: isReclaimed, host: func(w *world, h *host, f Fault) func() {
		h.reset(f.Late)
		return nil
	}},
	{name: "reset and cut off", longest: 40 * time.Second, host: func(w *world, h *host, f Fault) func() {
		h.reset(f.Late)
		return h.block(true, true)
	}},
	{name: "lost behind", host: func(w *world, h *host, f Fault) func() {
		h.lose(f.Late)
		return nil
	}},
	{name: "lost behind and cut off", longest: 40 * time.Second, host: func(w *world, h *host, f Fault) func() {
		h.lose(f.Late)
		return h.block(true, true)
	}},
	{name: "partition", longest: 40 * time.Second, spares: isShort, host: func(w *world, h *host, _ Fault) func() {
		return h.block(true, true)
	}},
	{name: "one-way partition", longest: 40 * time.Second, spares: isShort, host: func(w *world, h *host, f Fault) func() {
		return h.block(f.Up, !f.Up)
	}},
	{name: "slow network", longest: 40 * time.Second, spares: isALittleLate, host: func(w *world, h *host, f Fault) func() {
		return h.slow(f.Late)
	}},
	{name: "term", host: func(w *world, h *host, _ Fault) func() {
		h.term()
		return nil
	}},
	{name: "restart broker", one: "node", spares: isBack, broker: func(w *world, f Fault) func() {
		w.cluster.Restart(f.Node, false)
		return nil
	}},
	{name: "broker away", longest: 40 * time.Second, one: "node", spares: isBack, broker: func(w *world, f Fault) func() {
		w.cluster.Kill(f.Node)
		return func() { w.cluster.Start(f.Node) }
	}},
	{name: "broker stopped in order", longest: 20 * time.Second, one: "node", spares: isBack,
		broker: func(w *world, f Fault) func() {
			w.cluster.Stop(f.Node)
			return func() { w.cluster.Start(f.Node) }
		}},
	{name: "broker silent", longest: 40 * time.Second, one: "node", spares: isBack, broker: func(w *world, f Fault) func() {
		w.cluster.Hang(f.Node)
		return func() { w.cluster.Resume(f.Node) }
	}},
	{name: "broker slow", longest: 40 * time.Second, one: "slow", spares: isALittleLate, broker: func(w *world, f Fault) func() {
		w.setSlow(f.Late)
		return func() { w.setSlow(0) }
	}},
	{name: "connections closed", spares: isReclaimed, broker: func(w *world, f Fault) func() {
		w.cluster.CloseConnections("closed by an operator")
		return nil
	}},
	{name: "alarm", longest: 60 * time.Second, one: "alarm", spares: always, broker: func(w *world, f Fault) func() {
		w.cluster.Alarm(true)
		return func() { w.cluster.Alarm(false) }
	}},
	{name: "line purged", spares: always, broker: func(w *world, f Fault) func() {
		w.cluster.PurgeQueue("work-W")
		return nil
	}},
	{name: "line deleted", spares: always, broker: func(w *world, f Fault) func() {
		w.cluster.DeleteQueue("work-W")
		return nil
	}},
	{name: "slot's queue lost", broker: func(w *world, f Fault) func() {
		w.cluster.LoseQueue(w.queue(f, "B"))
		return nil
	}},
	{name: "slot's queue crashes", broker: func(w *world, f Fault) func() {
		w.cluster.CrashQueue(w.queue(f, "B"))
		return nil
	}},
	{name: "ledger crashes", broker: func(w *world, f Fault) func() {
		w.cluster.CrashQueue(w.queue(f, "T"))
		return nil
	}},
	{name: "ledger purged", least: 3 * time.Second, longest: 5 * time.Second, losing: true, one: "ledger", once: true,
		spares: isClassic, broker: func(w *world, f Fault) func() {
			if w.old(f) {
				w.cluster.PurgeQueue(w.queue(f, "T"))
			}
			return nil
		}},
	{name: "ledger deleted", least: 3 * time.Second, longest: 5 * time.Second, losing: true, one: "ledger", once: true,
		alone: true, spares: isClassic, broker: func(w *world, f Fault) func() {
			if w.old(f) {
				w.cluster.DeleteQueue(w.queue(f, "T"))
			}
			return nil
		}},
	{name: "ledger limited", longest: time.Minute, losing: true, one: "ledger", once: true, spares: isClassic,
		broker: func(w *world, f Fault) func() { return w.limit("max-length", f.Most) }},
	{name: "records expire", longest: time.Minute, losing: true, one: "ledger", once: true, spares: isClassic,
		broker: func(w *world, f Fault) func() { return w.limit("message-ttl", 1000*f.Most) }},
	{name: "tokens purged", spares: always, broker: func(w *world, f Fault) func() {
		w.cluster.PurgeQueue("work-K")
		return nil
	}},
	{name: "tokens deleted", spares: always, broker: func(w *world, f Fault) func() {
		w.cluster.DeleteQueue("work-K")
		return nil
	}},
	{name: "split", longest: 90 * time.Second, nodes: 3, one: "node", alone: true, broker: func(w *world, f Fault) func() {
		split := w.cluster.Split
		if f.Up { // connections between nodes are reset
			split = w.cluster.Disconnect
		}
		split([]int{f.Node}, []int{(f.Node + 1) % 3, (f.Node + 2) % 3})
		return func() {
			w.cluster.Heal()
			if w.plan.Version != simulated.V4_3 { // on Mnesia both sides go on until an operator restarts one of them
				time.Sleep(3 * f.Late)
				w.cluster.Restart(f.Node, false)
			}
		}
	}},
}
