package machine

// Event is what makes a supervisor go from one state to another, decides what follows
// its end, or has to be answered by what it does. What does none of it, such as a signal
// that is the command's, or a process that may not be signalled, is no event.
type Event string

// The events.
const (
	// What a call of the lock's methods returned.
	Connected    Event = "connected"
	NotConnected Event = "not connected"
	Acquired     Event = "acquired"
	NotAcquired  Event = "not acquired"
	Woken        Event = "woken"
	NotWoken     Event = "connection gone"
	Ready        Event = "ready and verified"
	NotReady     Event = "not ready"
	NoGuard      Event = "no guard" // none could be launched, at the beginning or in a slot that is ready and verified
	Verified     Event = "verified"
	Unverified   Event = "not verified"
	Released     Event = "released"
	Stuck        Event = "overtime" // it does not return

	// What the backend tells without being asked, and what its silence means.
	LossReported Event = "loss reported" // a loss, or that there may be one
	LossDue      Event = "loss due"      // not verified for so long that the loss sequence just fits

	// What the guard tells.
	GuardUnusable Event = "guard unusable"
	Started       Event = "started"
	Exited        Event = "command ended"
	Overdue       Event = "deadline passed"
	TreeDied      Event = "tree died"

	// What checks of the command's health tell, and the clock of its run.
	Unhealthy Event = "unhealthy" // so many in a row have failed
	RunOver   Event = "run over"  // --max-run has passed

	// What the user and the clock tell.
	ToldToEnd Event = "ending signal"
	AskedToGo Event = "asked to step down"
	Agreed    Event = "agreed to step down" // which is what Agree results in
	TimedOut  Event = "timeout"
	PauseOver Event = "pause over"
)

// Action is what is done about an event. Doing it decides nothing: the next state is
// in the same row of the table. What it results in at once is an event of its own, and
// the next one.
type Action string

// The actions.
const (
	Nothing Action = ""

	// While there is no slot.
	Connect       Action = "connect"
	Attempt       Action = "attempt"
	Reconnect     Action = "pause, then connect again"
	WaitForChange Action = "wait for a change"
	Withhold      Action = "wait for a check that succeeds"
	Quit          Action = "cancel the call"

	// About the slot.
	Prepare      Action = "wait for the last holder, verify"
	Launch       Action = "launch a guard" // which results in Ready or NoGuard
	Enter        Action = "have on_acquire started"
	Admit        Action = "verify, to start the command"
	Refuse       Action = "log the refusal, give the slot back"
	PrepareAgain Action = "verify"
	PrepareRetry Action = "take another guard, verify"
	Start        Action = "have the command started"
	Renew        Action = "renew the deadline"
	EndDoubt     Action = "renew the deadline, log that it is verified again"
	VerifyAgain  Action = "verify again"
	Doubt        Action = "remember the doubt, verify again"
	TellDoubt    Action = "log the doubt, verify again"
	VerifyNow    Action = "log the doubt, verify now"
	RestInDoubt  Action = "log the doubt, pause, then verify"
	Rest         Action = "launch another guard, pause, then start again"
	RenewAndRest Action = "renew the deadline, launch another guard, pause, then start again"
	Leave        Action = "have on_release started"
	ReleaseLost  Action = "log the loss, give the slot back"
	Release      Action = "give the slot back"
	Report       Action = "have on_lost started"
	QueueAgain   Action = "launch a guard unless there is one, pause, then queue up again"
	LeaveStuck   Action = "leave the slot to the end of berth"

	// About the command.
	Stop          Action = "begin the stop sequence with it"
	StopInOrder   Action = "begin the stop sequence"
	Lose          Action = "begin the loss sequence unless one kills sooner"
	HandOn        Action = "hand it on"
	HandOnSooner  Action = "hand it on, kill no later than the stop sequence would"
	BeginSequence Action = "begin the sequence that waited for it"
	TellRest      Action = "send the rest what only the first process was sent"
	TellNoGuard   Action = "log that there is none for the next start yet"

	// About the command, with --in-doubt freeze.
	Freeze          Action = "freeze the command"
	TellAndFreeze   Action = "log the doubt, freeze the command, verify again"
	FreezeAndVerify Action = "log the doubt, freeze the command, verify now"
	Thaw            Action = "renew the deadline, log that it is verified again, let the command go on"

	// About a request to step down.
	Agree     Action = "agree" // which results in Agreed
	TellGoing Action = "answer that the slot is being given back"
	Decline   Action = "answer that no slot is held"

	// About a hook, which is ended like the command otherwise.
	KillRest Action = "kill what it has left running"
)
