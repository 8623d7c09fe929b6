package supervisor

// State is where a supervisor is.
type State string

// The states. A slot is held in all from Preparing to Releasing. Those in which hooks run are left out without them.
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
