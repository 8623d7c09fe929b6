package observe

import (
	"fmt"

	"berth/lock"
	"berth/supervisor"
)

// status says in one line, for people, what a supervisor does.
func status(id lock.ID, now supervisor.Situation) string {
	slot := holding(id, now)
	switch {
	case now.State.Reaching():
		return because("connecting, to wait for "+id.Name, now.Waiting)
	case now.State.InLine():
		return because("waiting for "+id.Name, now.Waiting)
	}
	switch now.State {
	case supervisor.Preparing:
		return slot + ": making sure that no other command runs"
	case supervisor.Entering:
		return slot + ": running on_acquire"
	case supervisor.Starting:
		return slot + ": starting the command"
	case supervisor.Running:
		return slot
	case supervisor.InDoubt:
		return slot + ", in doubt: the broker does not confirm it"
	case supervisor.Stopping:
		return slot + ": ending the command"
	case supervisor.Losing:
		return slot + ", lost: ending the command"
	case supervisor.Resting:
		return slot + ": about to start the command again"
	case supervisor.Leaving:
		return slot + ": running on_release"
	case supervisor.Reporting:
		return "lost " + id.Name + ": running on_lost"
	case supervisor.Releasing:
		return slot + ": giving it back"
	}
	return "ending"
}

func because(what, reason string) string {
	if reason == "" {
		return what
	}
	return what + ": " + reason
}

// holding names the slot: "holding importer, term 7" or "holding slot 2 of
// workers, term 7".
func holding(id lock.ID, now supervisor.Situation) string {
	text := "holding " + id.Name
	if id.Kind.Sized() {
		text = fmt.Sprintf("holding slot %d of %s", now.Slot, id.Name)
	}
	if now.Term != 0 {
		text += fmt.Sprintf(", term %d", now.Term)
	}
	return text
}
