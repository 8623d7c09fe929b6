package loop

import (
	"berth/supervisor"
	"berth/supervisor/machine"
)

// handle does what the table of states says.
func (l *loop) handle(e event) {
	l.facts.Err, l.facts.Guard, l.facts.Signal = e.err, e.guard, e.sig
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
	before := l.state
	l.state = row.To
	switch {
	case l.state == supervisor.InDoubt:
		l.freeze()
	case before == supervisor.InDoubt && l.state == supervisor.Running:
		l.log.Info("slot verified again")
		l.thaw()
	}
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
}
