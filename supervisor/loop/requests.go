package loop

import (
	"strings"
	"time"

	"berth/lock"
	"berth/supervisor"
	"berth/supervisor/machine"
)

// asked is for a request of somebody who may ask.
func (l *loop) asked(r lock.Request) event {
	switch r.Verb {
	case lock.AskStatus:
		l.answers.Send(r, l.report())
	case lock.AskStepDown:
		return event{on: machine.AskedToGo, request: r}
	case lock.AskReload:
		l.reload(r)
	}
	return event{}
}

// agree has this berth step down.
func (l *loop) agree(e event) {
	l.answers.Send(e.request, lock.Decision{Accepted: true})
	l.log.Info("asked to step down", "by", e.request.From)
	l.follows = event{on: machine.Agreed}
}

// answer is for a request that changes nothing.
func (l *loop) answer(e event, decision lock.Decision) {
	l.answers.Send(e.request, decision)
	l.log.Debug("asked to step down", "by", e.request.From, "because_not", decision.Why)
}

// answerGoing is for a slot that is being given back.
func (l *loop) answerGoing(e event) {
	l.answer(e, lock.Decision{Accepted: true, Why: "it is giving the slot back already"})
}

// decline is for a berth that has nothing to step down from.
func (l *loop) decline(e event) { l.answer(e, lock.Decision{Why: "it holds no slot"}) }

// report is what others are told of this berth.
func (l *loop) report() lock.Report {
	r := l.situation().Report(l.cfg.Self)
	if l.held != nil && l.verified != 0 {
		r.Verified = time.Now().Add(l.cfg.Clock.Until(l.verified))
	}
	return r
}

// reloaded is what reading the configuration again has come to, for somebody who has asked for it.
type reloaded struct {
	settings supervisor.Reloaded
	err      error
	by       lock.Request
}

// reload begins to read the configuration again, once at a time.
func (l *loop) reload(r lock.Request) {
	switch {
	case l.cfg.Reload == nil:
		l.answers.Send(r, lock.Decision{Why: "there is nothing to reload"})
	case l.reloading:
		l.answers.Send(r, lock.Decision{Why: "a reload is under way; ask again"})
	default:
		l.reloading = true
		read := l.cfg.Reload
		go func() { // which may hang, on a dead file system: nobody waits for it
			what, err := read()
			l.reloads <- reloaded{what, err, r}
		}()
	}
}

// noteReloaded has the new configuration take effect, or says why it does not.
func (l *loop) noteReloaded(r reloaded) {
	l.reloading = false
	if r.err != nil {
		l.log.Error("asked to reload; everything stays as it was", "by", r.by.From, "error", r.err)
		l.answers.Send(r.by, lock.Decision{Why: r.err.Error()})
		return
	}
	l.cfg.Stop, l.cfg.StopTo, l.cfg.Loss = r.settings.Stop, r.settings.StopTo, r.settings.Loss
	l.cfg.Hooks, l.cfg.HookTimeout = r.settings.Hooks, r.settings.HookTimeout
	l.noteHooks()
	l.setLossTimer()
	if l.guard != nil && l.held != nil && l.state.Working() {
		_ = l.guard.SetWill(l.held.Handover().Will) // whose password may be another now
	}
	fields := []any{"by", r.by.From}
	var why []string
	for _, part := range []struct {
		key, says string
		of        []string
	}{
		{"took", "these have changed: ", r.settings.Took},
		{"kept", "these stay as they were until berth is started anew: ", r.settings.Kept},
	} {
		if names := strings.Join(part.of, ", "); names != "" {
			why, fields = append(why, part.says+names), append(fields, part.key, names)
		}
	}
	l.log.Info("configuration reloaded", fields...)
	l.answers.Send(r.by, lock.Decision{Accepted: true, Why: strings.Join(why, "; ")})
}
