package simulation

import (
	"math/rand/v2"
	"time"

	"berth/lock"
	"berth/lock/rabbit"
	"berth/signals"
	"berth/supervisor"
	simulated "berth/test/simulation/rabbit"
)

// Plan says what is simulated: who contends for what, and what befalls whom. Two simulations of one plan have the same
// history.
type Plan struct {
	Seed      uint64
	Version   simulated.Version
	Nodes     int
	Lock      lock.ID
	Slots     int
	Protocol  rabbit.Protocol
	QueueType rabbit.QueueType
	Latency   time.Duration // of the network at least, and twice that as a rule

	Contenders []Contender
	Faults     []Fault

	Verbose bool // the history has what berths log
	Silent  bool // messages are not noted, which is faster; two histories can not be compared then
}

// Kinds are the locks that are simulated, by what they are called in results.
var Kinds = []string{"mutex", "semaphore", "persistent-mutex", "tokens", "quorum-tokens", "quorum-mutex", "either-mutex",
	"plain-mutex", "plain-semaphore"}

// Draw returns the plan of a seed, for one of Kinds on so many nodes.
func Draw(seed uint64, kind string, nodes int) Plan {
	r := rand.New(rand.NewPCG(seed, 0))
	p := Plan{
		Seed: seed, Nodes: nodes, Slots: 1, Lock: lock.ID{Kind: lock.Mutex, Name: "work"},
		Version:  []simulated.Version{simulated.V3_10, simulated.V4_0, simulated.V4_3}[r.IntN(3)],
		Latency:  []time.Duration{100 * time.Microsecond, time.Millisecond, 20 * time.Millisecond}[r.IntN(3)],
		Protocol: rabbit.ProtocolFull,
	}
	several := 2 + r.IntN(3)
	switch kind {
	case "semaphore", "plain-semaphore":
		p.Lock.Kind, p.Slots = lock.Semaphore, several
	case "persistent-mutex":
		p.Lock.Kind = lock.PersistentMutex
	case "tokens":
		p.Lock.Kind, p.Slots, p.QueueType = lock.TokenSemaphore, several, rabbit.QueuesClassic
	case "quorum-mutex":
		p.QueueType = rabbit.QueuesQuorum
	case "quorum-tokens":
		p.Lock.Kind, p.Slots, p.QueueType = lock.TokenSemaphore, several, rabbit.QueuesQuorum
	}
	if kind == "plain-mutex" || kind == "plain-semaphore" {
		p.Protocol = rabbit.ProtocolPlain
	}
	heartbeat := time.Duration(3+r.IntN(3)) * time.Second
	for range 2 + r.IntN(19) {
		c := drawContender(r)
		c.QueueType = p.QueueType
		if kind == "either-mutex" { // they disagree
			c.QueueType = []rabbit.QueueType{"", rabbit.QueuesClassic, rabbit.QueuesQuorum}[r.IntN(3)]
		}
		c.Heartbeat = heartbeat
		if p.Protocol == rabbit.ProtocolFull && r.IntN(4) == 0 { // the plain protocol wants one lease for all
			c.Heartbeat = time.Duration(3+r.IntN(5)) * time.Second
		}
		c.drawTimings(r)
		p.Contenders = append(p.Contenders, c)
	}
	d := drawer{r: r, p: p, aimed: 3 * int(seed%1e6)}
	d.lost = kind == "either-mutex"            // that berths disagree is a fault, too
	if p.full() && !d.lost && r.IntN(4) == 0 { // a clock that is wrong and a ledger that is lost are two faults, for terms
		d.lost = true
		for i := range p.Contenders {
			p.Contenders[i].Clock = time.Duration(r.Int64N(int64(2*time.Hour))) - time.Hour
		}
	}
	p.Faults = d.faults()
	return p
}

// full reports whether the lock is kept with the full protocol.
func (p Plan) full() bool { return p.Protocol == rabbit.ProtocolFull }

// drawTimings draws what goes by the lease: how long commands run, how long they may be verified.
func (c *Contender) drawTimings(r *rand.Rand) {
	if r.IntN(3) == 0 {
		c.Run = 2 * time.Minute
	}
	if r.IntN(2) == 0 { // the longest that fits
		c.VerifyTimeout = 2*c.Heartbeat - c.VerifyInterval - c.Loss.Duration() - margin
	}
}

func drawContender(r *rand.Rand) Contender {
	c := Contender{
		Begin:          time.Duration(r.Int64N(int64(5 * time.Second))),
		VerifyInterval: time.Second, VerifyTimeout: 2 * time.Second,
		Stop: sequence("TERM 2s, KILL"), Loss: sequence("TERM 1s, KILL"), Restart: supervisor.Never,
		Run:      time.Duration(1+r.Int64N(100)) * 200 * time.Millisecond,
		Stubborn: r.IntN(2) == 0,
	}
	if r.IntN(5) == 0 {
		c.Restart = supervisor.Always
	}
	if r.IntN(4) == 0 {
		c.Priority = r.IntN(3)
	}
	return c
}

func sequence(text string) signals.Sequence {
	s, err := signals.ParseSequence(text)
	if err != nil {
		panic(err)
	}
	return s
}
