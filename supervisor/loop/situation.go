package loop

import (
	"berth/supervisor"
	"berth/supervisor/machine"
)

// observe tells the observer what has changed.
func (l *loop) observe() {
	if l.cfg.Observer == nil {
		return
	}
	if now := l.situation(); now != l.observed {
		l.observed = now
		l.cfg.Observer.Observe(now)
	}
}

func (l *loop) situation() supervisor.Situation {
	now := supervisor.Situation{State: l.state, Ending: l.facts.Ends(l.state), Since: l.since,
		Health: l.healthState()}
	if l.held != nil {
		now.Slot, now.Term = l.held.Slot(), l.held.Term()
	} else if l.facts.LastErr != nil {
		now.Waiting = l.facts.LastErr.Error()
	}
	if phase := l.facts.Command.Phase; phase != machine.Absent && phase != machine.Over && l.facts.Command.Hook == "" {
		now.Frozen = l.command.frozen
		now.Pid = l.command.pid
	}
	switch {
	case l.state.Ending():
		now.KillAt = l.sequence.killAt
	case l.state.Parting():
		now.KillAt = l.hooks.killAt
	}
	return now
}
