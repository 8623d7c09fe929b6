package machine

//go:generate go run ./diagram ../../docs

import "berth/supervisor"

// Row is what an event does in a state if a condition holds. Of several rows for an
// event the first that holds counts.
type Row struct {
	On Event
	If Condition
	Do Action
	To supervisor.State // the next state, "": the same
}

// stays is the next state of what changes none.
const stays supervisor.State = ""

// table is every change of state. Every event that can come in a state is listed there,
// also where nothing is to be done about it. Why something ends is in ending.go.
var table = map[supervisor.State][]Row{
	supervisor.Connecting: quitting(
		Row{Connected, unfit, Withhold, supervisor.Pausing},
		Row{Connected, always, Attempt, supervisor.Attempting},
		Row{NotConnected, thenEnd, Nothing, supervisor.Ended},
		Row{NotConnected, always, Reconnect, supervisor.Pausing},
		Row{NoGuard, always, Quit, supervisor.Ended},
	),
	supervisor.Pausing: {
		{PauseOver, always, Connect, supervisor.Connecting},
		{GuardUnusable, guarded, TellNoGuard, stays},
		{GuardUnusable, always, Quit, supervisor.Ended},
		{AskedToGo, always, Decline, stays},
		{ToldToEnd, always, Quit, supervisor.Ended},
		{TimedOut, always, Quit, supervisor.Ended},
		{Unhealthy, thenEnd, Quit, supervisor.Ended},
		{Unhealthy, always, Nothing, stays},
	},
	supervisor.Attempting: quitting(
		Row{Acquired, unfit, Release, supervisor.Releasing},
		Row{Acquired, always, Prepare, supervisor.Preparing},
		Row{NotAcquired, thenEnd, Nothing, supervisor.Ended},
		Row{NotAcquired, unreachable, Reconnect, supervisor.Pausing},
		Row{NotAcquired, always, WaitForChange, supervisor.Waiting},
	),
	supervisor.Waiting: quitting(
		Row{Woken, always, Attempt, supervisor.Attempting},
		Row{NotWoken, thenEnd, Nothing, supervisor.Ended},
		Row{NotWoken, always, Reconnect, supervisor.Pausing},
	),
	supervisor.Quitting: append(
		guardless(each(supervisor.Ended, Connected, NotConnected, NotAcquired, Woken, NotWoken, Stuck)...),
		Row{Acquired, always, Release, supervisor.Releasing},
		Row{AskedToGo, always, Decline, stays},
		Row{ToldToEnd, always, Nothing, stays},
		Row{TimedOut, always, Nothing, stays},
	),
	supervisor.Preparing: idle(
		Row{Ready, noGuard, Launch, stays},
		Row{Ready, enters, Enter, supervisor.Entering},
		Row{Ready, always, Start, supervisor.Starting},
		Row{NoGuard, thenEnd, Release, supervisor.Releasing},
		Row{NoGuard, always, RenewAndRest, supervisor.Resting},
		Row{NotReady, givenUp, ReleaseLost, supervisor.Releasing},
		Row{NotReady, always, RestInDoubt, supervisor.Resting},
		Row{TimedOut, always, Release, supervisor.Releasing},
		Row{Verified, always, Nothing, stays}, // of the call before, which was cancelled
		Row{Unverified, always, Nothing, stays},
	),
	// A doubt does not end a hook: it is killed in time if the slot is not verified.
	supervisor.Entering: hook(
		Row{TreeDied, admitted, Admit, supervisor.Preparing},
		Row{TreeDied, refused, Refuse, supervisor.Releasing},
		Row{TreeDied, always, Release, supervisor.Releasing},
		Row{ToldToEnd, always, Stop, supervisor.Stopping},
		Row{AskedToGo, always, Agree, stays},
		Row{Agreed, always, StopInOrder, supervisor.Stopping},
	),
	supervisor.Starting: guardless(holding( // TreeDied comes next
		Row{Started, doubtedFreeze, Freeze, supervisor.InDoubt},
		Row{Started, doubted, Nothing, supervisor.InDoubt},
		Row{Started, always, Nothing, supervisor.Running},
		Row{TreeDied, thenNextGuard, PrepareRetry, supervisor.Preparing},
	)...),
	supervisor.Running: holding(
		Row{Unverified, lossProven, Lose, supervisor.Losing},
		Row{Unverified, freeze, TellAndFreeze, supervisor.InDoubt},
		Row{Unverified, always, TellDoubt, supervisor.InDoubt},
		Row{LossReported, lossProven, Lose, supervisor.Losing},
		Row{LossReported, freeze, FreezeAndVerify, supervisor.InDoubt},
		Row{LossReported, always, VerifyNow, supervisor.InDoubt},
		Row{Unhealthy, always, StopInOrder, supervisor.Stopping},
		Row{RunOver, always, StopInOrder, supervisor.Stopping},
	),
	supervisor.InDoubt: holding(
		Row{Verified, freeze, Thaw, supervisor.Running},
		Row{Verified, always, EndDoubt, supervisor.Running},
		Row{Unhealthy, always, StopInOrder, supervisor.Stopping},
		Row{RunOver, always, StopInOrder, supervisor.Stopping},
	),
	supervisor.Stopping: guardless(holding(
		Row{Started, always, BeginSequence, stays},
		Row{Exited, nothingLeft, Nothing, stays},
		Row{Exited, always, TellRest, stays},
		Row{AskedToGo, mayStartAgain, Agree, stays},
		Row{AskedToGo, always, TellGoing, stays},
		Row{Agreed, always, Nothing, stays},
		Row{ToldToEnd, always, HandOn, stays},
	)...),
	supervisor.Losing: append(
		guardless(each(stays, Verified, Unverified, Ready, NotReady, LossReported, LossDue, Overdue, Exited)...),
		Row{Started, always, BeginSequence, stays},
		Row{AskedToGo, always, TellGoing, stays},
		Row{ToldToEnd, always, HandOnSooner, stays},
		Row{TreeDied, always, Release, supervisor.Releasing},
	),
	supervisor.Resting: idle(
		Row{PauseOver, always, PrepareAgain, supervisor.Preparing},
		Row{Verified, always, Renew, stays},
		Row{Unverified, givenUp, ReleaseLost, supervisor.Releasing},
		Row{Unverified, always, VerifyAgain, stays},
	),
	// Berth is about to leave the slot: a request that it end is met once the hook has ended.
	supervisor.Leaving: hook(
		Row{Ready, always, Renew, stays}, // of a call before
		Row{NotReady, lossProven, Lose, supervisor.Losing},
		Row{NotReady, always, Doubt, stays},
		Row{TreeDied, always, Release, supervisor.Releasing},
		Row{ToldToEnd, always, Nothing, stays},
		Row{AskedToGo, always, TellGoing, stays},
	),
	// Of a call before the release there may still be a result.
	supervisor.Releasing: append(
		guardless(each(stays, Verified, Unverified, Ready, NotReady, LossReported, ToldToEnd, TimedOut)...),
		Row{AskedToGo, always, TellGoing, stays},
		Row{Released, reports, Report, supervisor.Reporting},
		Row{Released, thenEnd, Nothing, supervisor.Ended},
		Row{Released, always, QueueAgain, supervisor.Pausing},
		Row{Stuck, always, LeaveStuck, supervisor.Ended},
	),
	supervisor.Reporting: append(
		guardless(each(stays, Started, ToldToEnd)...),
		Row{AskedToGo, always, Decline, stays},
		Row{Exited, nothingLeft, Nothing, stays},
		Row{Exited, always, KillRest, stays},
		Row{TreeDied, thenEnd, Nothing, supervisor.Ended},
		Row{TreeDied, always, QueueAgain, supervisor.Pausing},
	),
	supervisor.Ended: {},
}

// each returns rows for events about which nothing is done.
func each(to supervisor.State, events ...Event) (rows []Row) {
	for _, on := range events {
		rows = append(rows, Row{on, always, Nothing, to})
	}
	return rows
}

// guardless adds what a guard does that cannot be used, where nothing depends on it.
func guardless(rows ...Row) []Row {
	return append(rows,
		Row{GuardUnusable, guarded, TellNoGuard, stays},
		Row{GuardUnusable, always, Nothing, stays},
	)
}

// quitting adds what ends berth while a call is under way and no slot is held.
func quitting(rows ...Row) []Row {
	return append(rows,
		Row{AskedToGo, always, Decline, stays},
		Row{GuardUnusable, guarded, TellNoGuard, stays},
		Row{GuardUnusable, always, Quit, supervisor.Quitting},
		Row{ToldToEnd, always, Quit, supervisor.Quitting},
		Row{TimedOut, always, Quit, supervisor.Quitting},
		Row{Unhealthy, thenEnd, Quit, supervisor.Quitting},
		Row{Unhealthy, always, Nothing, stays},
	)
}

// idle adds what happens to a slot that is held without a command.
func idle(rows ...Row) []Row {
	return append(rows,
		Row{LossReported, givenUp, ReleaseLost, supervisor.Releasing},
		Row{LossReported, always, VerifyNow, stays},
		Row{LossDue, always, ReleaseLost, supervisor.Releasing},
		Row{GuardUnusable, guarded, TellNoGuard, stays},
		Row{GuardUnusable, always, Release, supervisor.Releasing},
		Row{ToldToEnd, leaves, Leave, supervisor.Leaving},
		Row{ToldToEnd, always, Release, supervisor.Releasing},
		Row{AskedToGo, always, Agree, stays},
		Row{Agreed, leaves, Leave, supervisor.Leaving},
		Row{Agreed, always, Release, supervisor.Releasing},
	)
}

// verified adds what happens to a slot in which something may be alive, and that is verified.
func verified(rows ...Row) []Row {
	return append(rows,
		Row{Verified, always, Renew, stays},
		Row{Unverified, lossProven, Lose, supervisor.Losing},
		Row{Unverified, always, Doubt, stays},
		Row{LossReported, lossProven, Lose, supervisor.Losing},
		Row{LossReported, always, VerifyNow, stays},
		Row{LossDue, always, Lose, supervisor.Losing},
		Row{Overdue, always, Lose, supervisor.Losing},
		Row{Exited, nothingLeft, Nothing, stays},
	)
}

// holding adds what happens to a slot in which a command may be alive.
func holding(rows ...Row) []Row {
	return append(verified(rows...),
		Row{Exited, always, StopInOrder, supervisor.Stopping},
		Row{TreeDied, thenStart, Rest, supervisor.Resting},
		Row{TreeDied, leaves, Leave, supervisor.Leaving},
		Row{TreeDied, always, Release, supervisor.Releasing},
		Row{ToldToEnd, always, Stop, supervisor.Stopping},
		Row{AskedToGo, always, Agree, stays},
		Row{Agreed, always, StopInOrder, supervisor.Stopping},
	)
}

// hook adds what happens to a slot in which a hook may be alive.
func hook(rows ...Row) []Row {
	return append(guardless(verified(rows...)...), // TreeDied comes next
		Row{Started, always, Nothing, stays},
		Row{Exited, always, KillRest, stays},
	)
}
