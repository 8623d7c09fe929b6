package feed

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/boottime"
	"berth/lock"
	"berth/signals"
	"berth/supervisor"
)

const (
	// Beat is how often the server hears that the supervisor gets around to what it has to do.
	Beat = time.Second

	// maxChanges is how much of the past is told.
	maxChanges = 60

	// pause is the least time from one line to the next: what happens meanwhile is in that one.
	pause = 100 * time.Millisecond

	// lastWords bounds how long Close waits for a server that does not read.
	lastWords = time.Second
)

// Config is what does not change, and Arithmetic as it is in the beginning.
type Config struct {
	Self       lock.Report
	Lock       lock.ID
	Arithmetic Arithmetic

	// Ready reports whether a situation counts as ready.
	Ready func(supervisor.Situation) bool
	// Alarm is what the broker's alarm is called, "" while there is none.
	Alarm func() string
	// Inspector returns what looks at the lock from outside, for a client that asks who holds it. nil: nothing does.
	Inspector func() lock.Inspector
	Log       hclog.Logger
}

// Feed is a supervisor.Observer and a supervisor.Tally. Nil does nothing. New makes it.
type Feed struct {
	cfg Config

	mu       sync.Mutex
	said     Snapshot // what changes with events
	now      supervisor.Situation
	verified boottime.Instant // 0: there is no proof
	deadline boottime.Instant
	failure  error // of the last verification; nil: it succeeded

	wake chan struct{} // has room for one
	over chan struct{} // closed by Close
	done chan struct{} // closed when nothing is sent any more; nil: nothing was ever
	to   pipe

	ended func(patience time.Duration) // waits for the server's end; nil: there is none

	unlook context.CancelFunc // ends what looks; nil: nothing does
	looked chan struct{}      // closed once that has ended
}

// pipe is where lines are written to.
type pipe interface {
	Write(line []byte) (int, error)
	SetWriteDeadline(t time.Time) error
	Close() error
}

// New returns a feed that nobody reads yet.
func New(cfg Config) *Feed {
	f := &Feed{cfg: cfg, wake: make(chan struct{}, 1), over: make(chan struct{})}
	f.said = Snapshot{
		Lock: cfg.Lock.Name, Kind: cfg.Lock.Kind, Arithmetic: cfg.Arithmetic, Timeline: []Change{},
		Counts: Counts{
			Losses: make(map[string]int), Kills: make(map[string]int),
			Checks: make(map[string]int), Cuts: make(map[string]int),
			Verification: newHistogram(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10),
			Start:        newHistogram(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120),
			Waited:       newHistogram(.01, .1, 1, 10, 60, 600, 3600, 6*3600, 24*3600, 7*24*3600),
		},
	}
	for _, cause := range supervisor.LossCauses() {
		f.said.Counts.Losses[string(cause)] = 0
	}
	for _, outcome := range supervisor.CheckOutcomes() {
		f.said.Counts.Checks[string(outcome)] = 0
	}
	for _, cause := range supervisor.CutCauses() {
		f.said.Counts.Cuts[string(cause)] = 0
	}
	f.said.Counts.Kills["KILL"] = 0
	return f
}

// Observe implements supervisor.Observer.
func (f *Feed) Observe(now supervisor.Situation) {
	f.change(func() {
		f.now = now
		if now.Slot != 0 {
			f.said.Look = Look{}
		} else {
			f.verified, f.failure = 0, nil
		}
		if now.Slot == 0 || now.State == supervisor.Releasing { // nothing is left that could be late
			f.deadline = 0
		}
		f.note(now)
	})
}

// note adds a state to the timeline. An attempt is part of waiting, and a pause part of connecting: both come and go
// too often to be of interest.
func (f *Feed) note(now supervisor.Situation) {
	state := now.State
	switch {
	case state.InLine():
		state = supervisor.Waiting
	case state.Reaching():
		state = supervisor.Connecting
	}
	next := Change{time.Now(), string(state), now.Slot, now.Term, now.Report(f.cfg.Self).Trouble}
	line := f.said.Timeline
	if n := len(line); n > 0 && line[n-1].State == next.State && line[n-1].Slot == next.Slot {
		next.At = line[n-1].At
		line[n-1] = next
		return
	}
	if len(line) == maxChanges {
		line = slices.Delete(line, 0, 1)
	}
	f.said.Timeline = append(line, next)
}

// SetArithmetic says which numbers count from now on.
func (f *Feed) SetArithmetic(a Arithmetic) { f.change(func() { f.said.Arithmetic = a }) }

// Beat implements supervisor.Observer.
func (f *Feed) Beat() { f.change(func() {}) }

// Won implements supervisor.Tally.
func (f *Feed) Won(waited time.Duration) {
	f.change(func() {
		f.said.Counts.Acquires++
		f.said.Counts.Waited.add(waited)
	})
}

// Started implements supervisor.Tally.
func (f *Feed) Started(took time.Duration, again bool) {
	f.change(func() {
		f.said.Counts.Starts++
		if again {
			f.said.Counts.Restarts++
		} else {
			f.said.Counts.Start.add(took)
		}
	})
}

// Proved implements supervisor.Tally.
func (f *Feed) Proved(since, deadline boottime.Instant) {
	f.change(func() { f.verified, f.deadline = since, deadline })
}

// Verified implements supervisor.Tally.
func (f *Feed) Verified(took time.Duration, err error) {
	f.change(func() {
		f.said.Counts.Verification.add(took)
		if f.failure = err; err != nil {
			f.said.Counts.Failures++
		}
	})
}

// Lost implements supervisor.Tally. Where time was up, the last verification says more.
func (f *Feed) Lost(cause supervisor.LossCause, why error) {
	f.change(func() {
		f.said.Counts.Losses[string(cause)]++
		if cause == supervisor.NotVerified && f.failure != nil {
			why = f.failure
		}
		f.said.LastLoss = Loss{time.Now(), f.now.Slot, f.now.Term, cause, why.Error()}
	})
}

// Checked implements supervisor.Tally.
func (f *Feed) Checked(outcome supervisor.CheckOutcome) {
	f.change(func() { f.said.Counts.Checks[string(outcome)]++ })
}

// Cut implements supervisor.Tally.
func (f *Feed) Cut(cause supervisor.CutCause) {
	f.change(func() { f.said.Counts.Cuts[string(cause)]++ })
}

// Step implements supervisor.Tally.
func (f *Feed) Step(sig syscall.Signal) {
	f.change(func() { f.said.Counts.Kills[signals.Name(sig)]++ })
}

// change notes something and has it told.
func (f *Feed) change(note func()) {
	if f == nil {
		return
	}
	f.mu.Lock()
	note()
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// line is what there is to say now.
func (f *Feed) line() ([]byte, error) {
	alarm := f.cfg.Alarm()
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.said
	s.Report = f.now.Report(f.cfg.Self)
	s.At, s.Alarm = time.Now(), alarm
	if s.Trouble == "" {
		s.Trouble = alarm
	}
	s.Ready = f.cfg.Ready != nil && f.cfg.Ready(f.now)
	s.CommandPID, s.Frozen, s.KillAt = f.now.Pid, f.now.Frozen, f.now.KillAt
	if f.verified != 0 {
		s.Verified = s.At.Add(f.verified.Until())
	}
	if f.deadline != 0 {
		s.Deadline = s.At.Add(f.deadline.Until())
	}
	line, err := json.Marshal(s)
	return append(line, '\n'), err
}

// send tells what there is to say until Close, to a server that reads.
func (f *Feed) send() {
	defer close(f.done)
	for {
		over := false
		select {
		case <-f.wake:
		case <-f.over:
			over = true
		}
		line, err := f.line()
		if err == nil {
			_, err = f.to.Write(line)
		}
		if over {
			return
		}
		if err != nil {
			if !f.closed() {
				f.cfg.Log.Error("--listen is no longer served: berth-listen has ended", "error", err)
			}
			return
		}
		select {
		case <-time.After(pause):
		case <-f.over: // and once more
		}
	}
}

func (f *Feed) closed() bool {
	select {
	case <-f.over:
		return true
	default:
		return false
	}
}

// Close says what is left, has the server end and waits for that: systemd kills, and logs, what a service leaves.
func (f *Feed) Close() {
	if f == nil || f.done == nil {
		return
	}
	close(f.over)
	if f.unlook != nil {
		f.unlook()
	}
	_ = f.to.SetWriteDeadline(time.Now().Add(lastWords))
	<-f.done
	_ = f.to.Close()
	if f.ended != nil {
		f.ended(lastWords)
	}
	if f.unlook != nil {
		select {
		case <-f.looked:
		case <-time.After(lastWords): // it closes connections, which the end of berth does too
		}
	}
}
