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
