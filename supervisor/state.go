package supervisor

// State is where a supervisor is. What a reader wants to know of one is a method of it: a list of states anywhere else
// would miss the next one.
type State string

// The states. Those in which hooks run are left out without them.
const (
	Connecting State = "connecting" // reaching the backend
	Pausing    State = "pausing"    // before reaching it again
	Attempting State = "attempting" // one attempt at a slot
	Waiting    State = "waiting"    // until another attempt is worthwhile
	Quitting   State = "quitting"   // told to end while something is under way
	Preparing  State = "preparing"  // slot won, until the command may start
	Entering   State = "entering"   // on_acquire runs, and lets the command start or refuses
	Starting   State = "starting"   // the guard was told to start the command
	Running    State = "running"    // the command runs, the slot is verified
	InDoubt    State = "in doubt"   // the command runs or is frozen, verification is overdue
	Stopping   State = "stopping"   // stop sequence
	Losing     State = "losing"     // loss sequence
	Resting    State = "resting"    // between two runs in one slot
	Leaving    State = "leaving"    // tree dead, on_release runs
	Releasing  State = "releasing"  // tree dead, giving the slot back
	Reporting  State = "reporting"  // the slot was lost and is given up, on_lost runs
	Ended      State = "ended"
)

// States returns all of them, in the order in which they are shown.
func States() []State {
	return []State{
		Connecting, Pausing, Attempting, Waiting, Quitting, Preparing, Entering, Starting, Running, InDoubt, Stopping,
		Losing, Resting, Leaving, Releasing, Reporting, Ended,
	}
}

// Reaching reports whether the backend is being reached, or is about to be.
func (s State) Reaching() bool { return s == Connecting || s == Pausing }

// InLine reports whether the backend was reached, and a slot is waited for. An attempt is a moment of that.
func (s State) InLine() bool { return s == Attempting || s == Waiting }

// Contending reports whether a slot is wanted, and none is held.
func (s State) Contending() bool { return s.Reaching() || s.InLine() }

// Passing reports whether a state says nothing new by itself: it takes a moment, and the next one tells.
func (s State) Passing() bool { return s == Connecting || s == Attempting }

// Holding reports whether a slot is held.
func (s State) Holding() bool {
	switch s {
	case Stopping, Losing, Leaving, Releasing:
		return true
	}
	return s.Keeping()
}

// Keeping reports whether a slot is held, and is not about to be given back.
func (s State) Keeping() bool {
	switch s {
	case Entering, Starting:
		return true
	}
	return s.Idle() || s.Working()
}

// Idle reports whether a slot is held, in which nothing runs and something is to.
func (s State) Idle() bool { return s == Preparing || s == Resting }

// Working reports whether the command runs, and is not being ended.
func (s State) Working() bool { return s == Running || s == InDoubt }

// Ending reports whether what runs in the slot is being ended.
func (s State) Ending() bool { return s == Stopping || s == Losing }

// Parting reports whether a hook runs after the command's end.
func (s State) Parting() bool { return s == Leaving || s == Reporting }

// Final reports whether berth ends, whatever happens.
func (s State) Final() bool { return s == Quitting || s == Ended }
