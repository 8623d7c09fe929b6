package supervisor

import "time"

// Observer is told what a supervisor does. Its methods are called by the one
// goroutine that decides, so they return at once.
type Observer interface {
	// Observe is told of every change, the first state and Ended included.
	Observe(now Situation)

	// Beat is called every Config.Beat for as long as the supervisor gets around
	// to what it has to do.
	Beat()
}

// Situation is where a supervisor is and what it has. Two of them can be compared.
type Situation struct {
	State State
	Slot  int    // the slot that is held, 0: none
	Term  uint64 // its term, 0: none
	Pid   int    // the first process of the command that runs, 0: none, or it is not known

	// Frozen: the command is stopped until the slot is verified again.
	Frozen bool

	// Waiting says why there is no slot yet, in one line, "" if that is not known
	// or there is one.
	Waiting string

	// Ending: berth itself ends, not only its command.
	Ending bool

	// KillAt is when the sequence under way comes to KILL, zero if there is none.
	KillAt time.Time
}

// observe tells the observer what has changed.
func (m *machine) observe() {
	if m.cfg.Observer == nil {
		return
	}
	if now := m.situation(); now != m.observed {
		m.observed = now
		m.cfg.Observer.Observe(now)
	}
}

func (m *machine) situation() Situation {
	now := Situation{State: m.state, Ending: m.ends()}
	if m.held != nil {
		now.Slot, now.Term = m.held.Slot(), m.held.Term()
	} else if m.lastErr != nil {
		now.Waiting = m.lastErr.Error()
	}
	if m.command.running && !m.command.ended {
		now.Frozen = m.command.frozen
		now.Pid = m.command.pid
	}
	if m.state == Stopping || m.state == Losing || m.state == Starting {
		now.KillAt = m.killAt
	}
	return now
}

// ends reports whether berth itself is about to end.
func (m *machine) ends() bool {
	switch m.state {
	case Quitting, Ended:
		return true
	case Releasing:
		return m.after == Ended
	case Losing:
		return m.stopSig != 0 || m.lossEnds() || m.command.finished && !m.restarts()
	}
	return m.stopSig != 0 || m.state == Stopping && !m.restarts()
}
