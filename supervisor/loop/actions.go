package loop

import "berth/supervisor/machine"

// handle does what the table of states says about an event, and about what results from that.
func (l *loop) handle(e event) {
	for e.on != "" {
		l.follows = event{}
		l.do(e)
		e = l.follows
	}
}

func (l *loop) do(e event) {
	l.facts.Err, l.facts.Guard, l.facts.Signal, l.facts.HasGuard = e.err, e.guard, e.sig, l.guard != nil
	row, found := machine.Next(l.state, e.on, &l.facts)
	if !found {
		l.env.unlisted(l.log, l.state, e.on)
		return
	}
	if e.on == machine.TreeDied {
		l.treeDied()
	}
	actions[row.Do](l, e)
	if row.To == "" || row.To == l.state {
		return
	}
	l.log.Trace("state", "from", string(l.state), "to", string(row.To), "event", string(e.on))
	l.state = row.To
}

// actions is how what the table says is done.
var actions = map[machine.Action]func(*loop, event){
	machine.Nothing:       func(*loop, event) {},
	machine.Connect:       func(l *loop, _ event) { l.calls.Connect() },
	machine.Attempt:       func(l *loop, _ event) { l.calls.Attempt() },
	machine.Reconnect:     (*loop).pauseToReconnect,
	machine.WaitForChange: (*loop).waitForChange,
	machine.Withhold:      (*loop).withhold,
	machine.Quit:          (*loop).quit,
	machine.Prepare:       (*loop).prepare,
	machine.PrepareAgain:  (*loop).prepareAgain,
	machine.PrepareRetry:  (*loop).prepareRetry,
	machine.Enter:         (*loop).enter,
	machine.Admit:         (*loop).admit,
	machine.Refuse:        (*loop).refuse,
	machine.Start:         (*loop).start,
	machine.Renew:         (*loop).renew,
	machine.VerifyAgain:   (*loop).verifyAgain,
	machine.Doubt:         (*loop).doubt,
	machine.TellDoubt:     (*loop).tellDoubt,
	machine.VerifyNow:     (*loop).verifyNow,
	machine.RestInDoubt:   (*loop).restInDoubt,
	machine.Rest:          (*loop).pauseBeforeStart,
	machine.RenewAndRest:  (*loop).renewAndRest,
	machine.Leave:         (*loop).leave,
	machine.ReleaseLost:   (*loop).releaseLost,
	machine.Release:       (*loop).release,
	machine.Report:        (*loop).reportLoss,
	machine.QueueAgain:    (*loop).queueAgain,
	machine.LeaveStuck:    func(l *loop, _ event) { l.held = nil },
	machine.Stop:          (*loop).stop,
	machine.StopInOrder:   (*loop).stopInOrder,
	machine.Lose:          (*loop).lose,
	machine.HandOn:        (*loop).handOn,
	machine.HandOnSooner:  (*loop).handOnSooner,
	machine.BeginSequence: (*loop).sequenceAfterStart,
	machine.TellRest:      (*loop).tellRest,
	machine.KillRest:      (*loop).killRest,

	machine.Launch:      (*loop).launchAtOnce,
	machine.TellNoGuard: func(l *loop, e event) { l.tellNoGuard(e.err) },

	machine.EndDoubt:        (*loop).endDoubt,
	machine.Freeze:          func(l *loop, _ event) { l.freeze() },
	machine.TellAndFreeze:   func(l *loop, e event) { l.tellDoubt(e); l.freeze() },
	machine.FreezeAndVerify: func(l *loop, e event) { l.verifyNow(e); l.freeze() },
	machine.Thaw:            func(l *loop, e event) { l.endDoubt(e); l.thaw() },

	machine.Agree:     (*loop).agree,
	machine.TellGoing: (*loop).answerGoing,
	machine.Decline:   (*loop).decline,
}
