package simulation

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"berth/lock/rabbit"
)

// drawer draws the faults of a plan.
type drawer struct {
	r     *rand.Rand
	p     Plan
	aimed int  // at which of the steps
	lost  bool // no record of a ledger is lost any more
}

// faults draws faults one after another, some so far from each other that it is known which of them has ended a command;
// such that follow each other within moments; and such as are known to tell a broken berth.
func (d *drawer) faults() (all []Fault) {
	switch n := d.r.IntN(6); {
	case n == 0:
		apart := d.r.IntN(2) * int(aftermath)
		for range 1 + d.r.IntN(5) {
			f := d.one()
			f.After += time.Duration(apart)
			all = append(all, f)
		}
	case n == 1 || !d.p.full() || d.p.QueueType == rabbit.QueuesQuorum:
		for range 1 + d.r.IntN(3) {
			all = append(all, d.chain()...)
		}
	default:
		all = append(all, d.chain()...)
		stories := []func() []Fault{d.lateAnswer, d.stoppedSuccessor, d.leavingSuccessor, d.unheardRecord, d.lostLedger}
		if d.p.Nodes == 3 {
			stories = append(stories, d.split, d.split)
		}
		for range 2 {
			all = append(all, stories[d.r.IntN(len(stories))]()...)
		}
	}
	if d.p.full() && d.r.IntN(4) == 0 {
		all = append(all, d.rare()...)
	}
	return all
}

// one draws a fault that comes alone.
func (d *drawer) one() Fault {
	k := d.kind(func(k kindOfFault) bool { return true })
	f := d.of(k)
	f.After = d.upTo(20 * time.Second)
	if d.r.IntN(3) > 0 {
		d.aim(&f)
	}
	return f
}

// chain draws faults that follow each other within moments, the first one after a step.
func (d *drawer) chain() (all []Fault) {
	for i := range 2 + d.r.IntN(3) {
		f := d.of(d.kind(func(k kindOfFault) bool { return !k.alone }))
		switch {
		case i == 0:
			d.aim(&f)
			all, f = d.caused(f, 10*time.Second)
		case d.r.IntN(3) == 0:
			d.aim(&f)
			fallthrough
		default:
			f.Beside, f.After = true, d.short(2*time.Second)
		}
		if whom := []role{same, same, holder, successor, ""}[d.r.IntN(5)]; i > 0 && f.Step == "" {
			f.Whom = whom
		}
		all = append(all, f)
	}
	return all
}

// caused draws when a fault comes, and a fault before it that has the step be made which it waits for, if one is needed.
func (d *drawer) caused(f Fault, within time.Duration) (before []Fault, then Fault) {
	cause := d.cause(f.Step)
	f.After = d.upTo(within)
	if cause.Name != "" {
		cause.After, f.After, f.Beside, f.Nth = f.After, 0, true, 1
		before = append(before, cause)
	}
	return before, f
}

// cause draws a fault that has a step be made which hardly comes otherwise while a fault waits for it. The zero value: it
// comes by itself.
func (d *drawer) cause(step string) (f Fault) {
	switch {
	case step == releasing: // a command may run for minutes
		f = Fault{Name: []string{"term", "kill berth"}[d.r.IntN(2)], Whom: holder}
	case strings.HasSuffix(step, "blocked"):
		f = Fault{Name: "alarm", For: d.upTo(6 * time.Second)}
	case strings.HasSuffix(step, "reclaim"): // the broker learns late that the connection is gone which has B
		f = Fault{Name: "reset", Whom: holder, Late: time.Second + d.upTo(2*time.Second)}
	case step == "will", step == "<- connection.start", step == "<- connection.tune":
		f = Fault{Name: "kill berth", Whom: holder}
	}
	f.Host = d.r.IntN(len(d.p.Contenders))
	return f
}

// kind draws a kind of fault.
func (d *drawer) kind(suits func(kindOfFault) bool) kindOfFault {
	var possible []kindOfFault
	for _, k := range faults {
		// The plain protocol knows no arbiter for a split, see docs/safety.md.
		if k.nodes <= d.p.Nodes && suits(k) && !(k.losing && (d.lost || !d.p.full())) && (k.name != "split" || d.p.full()) {
			possible = append(possible, k)
		}
	}
	k := possible[d.r.IntN(len(possible))]
	d.lost = d.lost || k.losing
	return k
}

// of draws a fault of a kind.
func (d *drawer) of(k kindOfFault) Fault {
	f := Fault{Name: k.name, Host: d.r.IntN(len(d.p.Contenders)), Node: d.r.IntN(d.p.Nodes), Up: d.r.IntN(2) == 0,
		Late: d.short(4 * time.Second), Most: 1 + d.r.IntN(3)}
	if k.longest > 0 {
		f.For = k.least + time.Millisecond + d.short(k.longest-k.least)
	}
	return f
}

// aim has a fault come after a step of the protocol.
func (d *drawer) aim(f *Fault) {
	for f.Step == "" || !d.p.has(f.Step) {
		f.Step = steps[d.aimed%len(steps)]
		d.aimed++
	}
	f.Nth, f.Whom = []int{1, 1, 1, 2, 3}[d.r.IntN(5)], maker
	switch d.r.IntN(4) {
	case 0:
		f.Then = d.upTo(300 * time.Microsecond) // as messages follow each other inside of the broker
	case 1:
		f.Then = d.upTo(4 * d.p.Latency)
	case 2:
		f.Then = d.short(2 * time.Second)
	}
}

// has reports whether the lock has a queue that a step is about.
func (p Plan) has(step string) bool {
	words := strings.Fields(step)
	about := func(queue string) bool { return slices.Contains(words, queue) }
	switch {
	case about("A"):
		return p.Lock.Kind.Administered()
	case about("K"):
		return p.QueueType == rabbit.QueuesClassic
	case about("Q"):
		return p.QueueType == rabbit.QueuesQuorum
	case about("W"):
		return p.full() && p.QueueType == ""
	case about("T"):
		return p.full()
	}
	return true
}

func (d *drawer) upTo(most time.Duration) time.Duration {
	return time.Duration(d.r.Int64N(int64(most)))
}

// short draws a duration that is short as often as it is long.
func (d *drawer) short(longest time.Duration) time.Duration {
	if d.r.IntN(3) == 0 {
		return 0
	}
	for most := longest; ; most /= 4 {
		if d.r.IntN(3) > 0 || most < time.Millisecond {
			return d.upTo(most)
		}
	}
}

// longer draws the time that a holder is cut off for: longer than a lease.
func (d *drawer) longer() time.Duration { return 15*time.Second + d.upTo(15*time.Second) }

// cutOff has the broker free at once what the holder has, who cannot connect again, and learns of it late.
func (d *drawer) cutOff(late time.Duration) Fault {
	return Fault{Name: "lost behind and cut off", Whom: holder, Host: d.r.IntN(len(d.p.Contenders)), For: d.longer(), Late: late}
}

// lateAnswer: the answer to a holder's verification comes late, and the slot is somebody else's by then.
func (d *drawer) lateAnswer() []Fault {
	f := d.cutOff(d.upTo(10 * time.Second))
	f.After, f.Whom = d.upTo(10*time.Second), maker
	f.Step, f.By, f.Nth, f.Then = "-> queue.declare T", holder, 1+d.r.IntN(4), d.p.Latency+d.upTo(2*d.p.Latency)
	return []Fault{f}
}

// stoppedSuccessor: the release comes to a successor that stands still and does not know that its connection is gone,
// while somebody else waits for it. It stands still for less than one and a half heartbeats: after so long without a
// message amqp091-go takes a connection for dead, whatever its socket has.
func (d *drawer) stoppedSuccessor() []Fault {
	shortest := d.p.Contenders[0].Heartbeat
	for _, c := range d.p.Contenders {
		shortest = min(shortest, c.Heartbeat)
	}
	stop := Fault{Name: "stop berth", Whom: successor, Step: releasing, For: shortest + d.upTo(shortest/4)}
	all, stop := d.caused(stop, 5*time.Second)
	lost := d.cutOff(stop.For + d.upTo(3*time.Second))
	lost.Whom, lost.Beside, lost.After, lost.For = same, true, 4*d.p.Latency+d.upTo(4*d.p.Latency), stop.For+d.longer()
	return append(all, stop, lost)
}

// leavingSuccessor: the ledger loses the record of a holder, who is cut off, and somebody else who has waited for it
// ends.
func (d *drawer) leavingSuccessor() []Fault {
	limit := d.limit()
	limit.Step, limit.Nth, limit.Then = recording, 1+d.r.IntN(3), d.short(4*time.Second)
	cut, end := d.cutOff(0), Fault{Name: []string{"term", "kill berth"}[d.r.IntN(2)], Whom: successor}
	cut.Beside, cut.After = true, d.short(4*time.Second)
	end.Beside, end.After = true, d.upTo(2*time.Second)
	if d.r.IntN(2) == 0 {
		cut, end = end, cut
	}
	return []Fault{limit, cut, end}
}

// unheardRecord: the same, and who ends has written a record that it has not heard of.
func (d *drawer) unheardRecord() []Fault {
	limit, cut := d.limit(), d.cutOff(0)
	limit.Step, limit.By, limit.Nth = recording, successor, 1+d.r.IntN(3)
	end := Fault{Name: "reset", Whom: same, Beside: true, After: d.upTo(d.p.Latency + time.Millisecond)}
	cut.Beside, cut.After = true, d.short(2*time.Second)
	return []Fault{limit, end, cut}
}

// split: a cluster falls apart for a moment, after which both sides may reach the ledger, each with a B of its own.
func (d *drawer) split() []Fault {
	return []Fault{{Name: "split", Node: d.r.IntN(3), Up: d.r.IntN(4) > 0, After: d.upTo(5 * time.Second),
		For: time.Second + d.short(time.Minute), Late: d.upTo(8 * time.Second)}}
}

// rare: what hardly ever comes by itself, and a fault in that moment.
func (d *drawer) rare() []Fault {
	host := d.r.IntN(len(d.p.Contenders))
	f := Fault{Name: []string{"kill berth", "stop berth", "reset", "partition"}[d.r.IntN(4)], Whom: maker, Host: host,
		Beside: true, Nth: 1, Then: d.upTo(d.p.Latency / 2), For: time.Second + d.upTo(10*time.Second)}
	var cause Fault
	switch d.r.IntN(5) {
	case 0: // a probe that is nacked
		f.Name, f.Step, f.Then = "slot's queue crashes", "-> basic.publish B", d.p.Latency+d.upTo(d.p.Latency+200*time.Microsecond)
		f.Beside, f.Nth, f.For = false, 1+d.r.IntN(3), 0
		return []Fault{f}
	case 1:
		cause, f.Step = Fault{Name: "alarm", For: d.upTo(4 * time.Second)}, "<- connection.unblocked"
	case 2: // a command that may have been started
		f.Name, f.Step, f.Then = "kill guard", "accepted", d.upTo(400*time.Microsecond)
		f.Beside, f.Nth, f.For = false, 1+d.r.IntN(4), 0
		return []Fault{f}
	case 3: // a successor has claimed B by then
		cause = Fault{Name: "lost behind and cut off", Whom: holder, For: time.Second + d.upTo(4*time.Second)}
		f.Step = "<- basic.deliver B reclaim"
	default:
		cause, f.Step = Fault{Name: "kill berth", Whom: holder}, "<- connection.start"
	}
	cause.Host, cause.After = host, d.upTo(5*time.Second)
	return []Fault{cause, f}
}

// limit has ledgers lose records, if that may be.
func (d *drawer) limit() Fault {
	f := Fault{Name: "ledger limited", After: d.upTo(5 * time.Second), For: 20*time.Second + d.upTo(20*time.Second),
		Most: 2 + d.r.IntN(2)} // the record and the release of who leaves, which may come twice
	if d.lost {
		f = Fault{Name: "alarm", After: f.After, For: f.For}
	}
	d.lost = true
	return f
}

// lostLedger: a ledger is deleted, and its holder cut off once it has verified its slot.
func (d *drawer) lostLedger() []Fault {
	if d.lost {
		return d.lateAnswer()
	}
	d.lost = true
	deleted := Fault{Name: "ledger deleted", Host: d.r.IntN(len(d.p.Contenders)), After: d.upTo(10 * time.Second),
		For: 3*time.Second + d.short(2*time.Second)}
	cut := d.cutOff(0)
	cut.Host, cut.After = deleted.Host, d.short(2*time.Second)
	end := Fault{Name: "kill berth", Whom: successor, Beside: true, After: d.upTo(time.Second)}
	return []Fault{deleted, cut, end}
}

// steps are those of the protocol that faults wait for.
var steps = []string{
	"-> queue.declare B", "<- queue.declare-ok B", "-> queue.declare T", "<- queue.declare-ok T", "-> basic.consume T",
	"<- basic.consume-ok", recording, "<- basic.deliver T held", releasing,
	"<- basic.deliver T released", "-> basic.cancel", "<- basic.cancel-ok", "<- basic.cancel", "-> basic.nack",
	"-> basic.ack", "<- basic.ack", "-> queue.delete B", "<- queue.delete-ok", "-> basic.consume W", "-> queue.declare W",
	"order start", "accepted", "start", "will", "-> basic.consume K", "-> basic.consume Q",
	"<- basic.deliver Q", "-> channel.close", "<- channel.close", "-> connection.close", "<- connection.close-ok",
	"<- connection.start", "<- connection.open-ok", "<- basic.qos-ok", "<- basic.deliver T yield", "<- queue.declare-ok W",
	"<- basic.deliver W call", "<- basic.return B", "<- basic.return T released", "-> basic.publish B reclaim",
	"<- basic.deliver B reclaim", "<- connection.blocked", "<- connection.unblocked", "<- connection.close", "<- basic.nack",
	"<- confirm.select-ok", "-> basic.publish B", "<- basic.deliver B", "-> basic.consume B", "<- channel.close-ok",
	"-> basic.publish W baton", "<- basic.deliver W baton", "-> basic.publish W call", "-> connection.close-ok",
	"<- channel.open-ok", "<- basic.deliver K token", "-> basic.publish K token", "<- queue.declare-ok A", "-> channel.open",
	"-> confirm.select", "-> connection.open", "<- connection.tune", "<- queue.declare-ok K", "<- basic.get-empty",
}
