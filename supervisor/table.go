package supervisor

//go:generate go run ./diagram ../docs/states.md

// State is where a supervisor is.
type State string

// The states. A slot is held in all from Preparing to Releasing.
const (
	Connecting State = "connecting" // reaching the backend
	Pausing    State = "pausing"    // before reaching it again
	Attempting State = "attempting" // one attempt at a slot
	Waiting    State = "waiting"    // until another attempt is worthwhile
	Quitting   State = "quitting"   // told to end while something is under way
	Preparing  State = "preparing"  // slot won, until the command may start
	Starting   State = "starting"   // the guard was told to start the command
	Running    State = "running"    // the command runs, the slot is verified
	InDoubt    State = "in doubt"   // the command runs or is frozen, verification is overdue
	Stopping   State = "stopping"   // stop sequence
	Losing     State = "losing"     // loss sequence
	Resting    State = "resting"    // between two runs in one slot
	Releasing  State = "releasing"  // tree dead, giving the slot back
	Ended      State = "ended"
)

// trigger is what makes a supervisor act.
type trigger string

const (
	connected    trigger = "connected"
	notConnected trigger = "not connected"
	acquired     trigger = "acquired"
	notAcquired  trigger = "not acquired"
	woken        trigger = "woken"
	notWoken     trigger = "connection gone"
	ready        trigger = "ready and verified"
	notReady     trigger = "not ready"
	verified     trigger = "verified"
	unverified   trigger = "not verified"
	released     trigger = "released"

	lost    trigger = "lost"     // the backend says so, without being asked
	lossDue trigger = "loss due" // not verified for so long that the loss sequence just fits

	unusable   trigger = "guard unusable"
	accepted   trigger = "accepted"
	started    trigger = "started"
	notStarted trigger = "not started"
	suspended  trigger = "suspended"
	exited     trigger = "command ended"
	refused    trigger = "process may not be signalled"
	killing    trigger = "killing" // as it was told
	overdue    trigger = "deadline passed"
	dead       trigger = "tree dead"
	silent     trigger = "no answer" // from the guard
	stuck      trigger = "overtime"  // a call of the backend does not return

	ending     trigger = "ending signal"
	forwarded  trigger = "other signal"
	timedOut   trigger = "timeout"
	pauseOver  trigger = "pause over"
	stepDue    trigger = "step due"
	verifyTime trigger = "time to verify"
)

// transition is what a trigger does in a state. do returns the next state, one
// of to; a transition without to stays where it is.
type transition struct {
	do func(*machine, event) State
	to []State
}

// table is the whole machine. A trigger that is not listed for a state has no
// meaning in it, and is noted at debug level and dropped.
var table map[State]map[trigger]transition

// It is filled in here because the methods in it refer to the table.
func init() {
	holding := func(more map[trigger]transition) map[trigger]transition {
		all := map[trigger]transition{
			verifyTime: {do: (*machine).verify},
			verified:   {do: (*machine).renew},
			unverified: {do: (*machine).doubt, to: []State{Losing}},
			lost:       {do: (*machine).noteLost, to: []State{Losing}},
			lossDue:    {do: (*machine).loseUnverified, to: []State{Losing}},
			refused:    {do: (*machine).noteRefused},
			overdue:    {do: (*machine).loseOverdue, to: []State{Losing}},
			exited:     {do: (*machine).noteExit, to: []State{Stopping}},
			dead:       {do: (*machine).bury, to: []State{Releasing, Resting}},
			ending:     {do: (*machine).stop, to: []State{Stopping}},
			forwarded:  {do: (*machine).forward},
			suspended:  {do: (*machine).noteSuspended},
		}
		for on, t := range more {
			all[on] = t
		}
		return all
	}

	table = map[State]map[trigger]transition{
		Connecting: {
			connected:    {do: (*machine).attempt, to: []State{Attempting}},
			notConnected: {do: (*machine).pauseAfter, to: []State{Pausing, Ended}},
			unusable:     {do: (*machine).noteUnusable, to: []State{Quitting}},
			ending:       {do: (*machine).quit, to: []State{Quitting}},
			timedOut:     {do: (*machine).quitLate, to: []State{Quitting}},
			forwarded:    {do: (*machine).noteSignal},
		},
		Pausing: {
			pauseOver: {do: (*machine).connect, to: []State{Connecting}},
			unusable:  {do: (*machine).noteUnusable, to: []State{Ended}},
			ending:    {do: (*machine).quit, to: []State{Ended}},
			timedOut:  {do: (*machine).quitLate, to: []State{Ended}},
			forwarded: {do: (*machine).noteSignal},
		},
		Attempting: {
			acquired:    {do: (*machine).prepare, to: []State{Preparing}},
			notAcquired: {do: (*machine).waitAfter, to: []State{Waiting, Pausing, Ended}},
			unusable:    {do: (*machine).noteUnusable, to: []State{Quitting}},
			ending:      {do: (*machine).quit, to: []State{Quitting}},
			timedOut:    {do: (*machine).quitLate, to: []State{Quitting}},
			forwarded:   {do: (*machine).noteSignal},
		},
		Waiting: {
			woken:     {do: (*machine).attempt, to: []State{Attempting}},
			notWoken:  {do: (*machine).pauseAfter, to: []State{Pausing}},
			unusable:  {do: (*machine).noteUnusable, to: []State{Quitting}},
			ending:    {do: (*machine).quit, to: []State{Quitting}},
			timedOut:  {do: (*machine).quitLate, to: []State{Quitting}},
			forwarded: {do: (*machine).noteSignal},
		},
		Quitting: {
			acquired:     {do: (*machine).releaseUnused, to: []State{Releasing}},
			connected:    {do: (*machine).end, to: []State{Ended}},
			notConnected: {do: (*machine).end, to: []State{Ended}},
			notAcquired:  {do: (*machine).end, to: []State{Ended}},
			woken:        {do: (*machine).end, to: []State{Ended}},
			notWoken:     {do: (*machine).end, to: []State{Ended}},
			stuck:        {do: (*machine).end, to: []State{Ended}},
			unusable:     {do: (*machine).stay},
			ending:       {do: (*machine).stay},
			forwarded:    {do: (*machine).noteSignal},
		},
		Preparing: {
			ready:     {do: (*machine).start, to: []State{Starting, Releasing, Resting}},
			notReady:  {do: (*machine).noteNotReady, to: []State{Releasing, Resting}},
			unusable:  {do: (*machine).noteUnusable, to: []State{Releasing}},
			lost:      {do: (*machine).noteLostIdle, to: []State{Releasing}},
			lossDue:   {do: (*machine).releaseLost, to: []State{Releasing}},
			ending:    {do: (*machine).releaseTold, to: []State{Releasing}},
			timedOut:  {do: (*machine).releaseLate, to: []State{Releasing}},
			forwarded: {do: (*machine).noteSignal},
		},
		Starting: holding(map[trigger]transition{
			unusable:   {do: (*machine).noteUnusable},
			accepted:   {do: (*machine).noteAccepted},
			started:    {do: (*machine).noteStarted, to: []State{Running, InDoubt, Stopping, Losing}},
			notStarted: {do: (*machine).noteNotStarted},
			unverified: {do: (*machine).doubtStart},
			lost:       {do: (*machine).noteLostStart},
			lossDue:    {do: (*machine).loseStart},
			overdue:    {do: (*machine).loseStart},
			ending:     {do: (*machine).stopStart},
			forwarded:  {do: (*machine).keepSignal},
			killing:    {do: (*machine).noteKilling},
			stepDue:    {do: (*machine).killStart},
			silent:     {do: (*machine).abandon},
			dead:       {do: (*machine).bury, to: []State{Releasing, Resting, Preparing}},
		}),
		Running: holding(map[trigger]transition{
			unverified: {do: (*machine).doubt, to: []State{InDoubt, Losing}},
			lost:       {do: (*machine).noteLost, to: []State{InDoubt, Losing}},
		}),
		InDoubt: holding(map[trigger]transition{
			verified: {do: (*machine).renew, to: []State{Running}},
		}),
		Stopping: holding(map[trigger]transition{
			killing: {do: (*machine).noteKilling},
			stepDue: {do: (*machine).step},
			silent:  {do: (*machine).abandon},
		}),
		Losing: {
			verified:   {do: (*machine).stay},
			unverified: {do: (*machine).stay},
			lost:       {do: (*machine).stay},
			exited:     {do: (*machine).noteExit},
			refused:    {do: (*machine).noteRefused},
			overdue:    {do: (*machine).stay},
			dead:       {do: (*machine).bury, to: []State{Releasing}},
			killing:    {do: (*machine).noteKilling},
			stepDue:    {do: (*machine).step},
			silent:     {do: (*machine).abandon},
			ending:     {do: (*machine).stopLosing},
			forwarded:  {do: (*machine).forward},
		},
		Resting: {
			pauseOver:  {do: (*machine).prepareAgain, to: []State{Preparing}},
			unusable:   {do: (*machine).noteUnusable, to: []State{Releasing}},
			verifyTime: {do: (*machine).verify},
			verified:   {do: (*machine).renew},
			unverified: {do: (*machine).doubtResting, to: []State{Releasing}},
			lost:       {do: (*machine).noteLostIdle, to: []State{Releasing}},
			lossDue:    {do: (*machine).releaseLost, to: []State{Releasing}},
			ending:     {do: (*machine).releaseTold, to: []State{Releasing}},
			forwarded:  {do: (*machine).noteSignal},
		},
		Releasing: {
			released:   {do: (*machine).afterRelease, to: []State{Pausing, Ended}},
			unusable:   {do: (*machine).noteUnusable},
			verified:   {do: (*machine).stay},
			unverified: {do: (*machine).stay},
			ready:      {do: (*machine).stay},
			notReady:   {do: (*machine).stay},
			lost:       {do: (*machine).stay},
			stuck:      {do: (*machine).releaseStuck, to: []State{Ended}},
			ending:     {do: (*machine).noteStop},
			timedOut:   {do: (*machine).noteLate},
			forwarded:  {do: (*machine).noteSignal},
		},
		Ended: {},
	}
}
