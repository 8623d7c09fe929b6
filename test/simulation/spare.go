package simulation

import (
	"fmt"
	"time"

	"berth/lock/rabbit"
)

// blow is a fault that has come. world.mu guards it.
type blow struct {
	kind  kindOfFault
	fault Fault
	host  *host         // that it has befallen; nil: the broker
	over  time.Duration // since when; negative: it goes on
}

func (b *blow) whom() string {
	if b.host == nil {
		return "the broker"
	}
	return b.host.name
}

// aftermath is for how long something can come of a fault that is over: the broker closes a connection that is silent
// within three heartbeats.
const aftermath = 30 * time.Second

// noteCut is for a command that is told to end, or killed. It has to run on if nothing has befallen it, or one fault
// after which docs/safety.md says that it does. The caller has mu.
func (w *world) noteCut(c *command, why string) {
	if c.cut || c.dead || w.ending {
		return
	}
	c.cut = true
	var since []*blow
	for _, b := range w.blows {
		if b.over < 0 || w.now()-b.over < aftermath {
			since = append(since, b)
		}
	}
	h := c.of.host
	switch {
	case w.now()-h.told < aftermath && h.told > 0: // to end
	case len(since) == 0:
		w.history.Violate(w.now(), h.name, "command %d has to run on, because nothing has befallen it, and is ended: %s",
			c.span.ID, why)
	case len(since) > 1: // what that comes to, the pages do not say
	case since[0].spared(c):
		w.history.Violate(w.now(), h.name, "command %d has to run on after %q, and is ended: %s", c.span.ID,
			fmt.Sprintf("%s of %s", since[0].fault, since[0].whom()), why)
	}
}

// spared reports whether a command runs on after this fault, if it is the only one.
func (b *blow) spared(c *command) bool {
	if b.host != nil && b.host != c.of.host {
		return true
	}
	return b.kind.spares != nil && b.kind.spares(c, b.fault)
}

func always(*command, Fault) bool { return true }

// isShort is for silence that is over before the command would have to end: see safe timings in docs/configuration.md.
func isShort(c *command, f Fault) bool { return f.For <= c.of.host.patience() }

// patience is for how long nothing need get through before a command ends: until the loss sequence begins there is time
// for the last proof, which may be as old, and for the next one.
func (h *host) patience() time.Duration {
	lease := 2 * h.cfg.Heartbeat
	return (lease-margin-h.cfg.Loss.Duration())/2 - h.cfg.VerifyInterval/4
}

// isALittleLate is for what is slow, and does not keep a verification from being answered.
func isALittleLate(_ *command, f Fault) bool { return f.Late <= 200*time.Millisecond }

// isReclaimed is for connections that are reset: with the plain protocol that can cost a command its slot.
func isReclaimed(c *command, f Fault) bool {
	return c.of.host.w.plan.full() && f.Late <= c.of.host.patience()/2
}

// isBack is for a broker that is back in time. A node of a cluster takes its queues with it, and a slot is lost that was
// just first used.
func isBack(c *command, f Fault) bool {
	h := c.of.host
	return h.w.plan.full() && h.w.plan.Nodes == 1 && f.For <= h.patience()/2 && h.w.now()-h.w.used[c.span.Slot] > aftermath
}

// isClassic is for ledgers that lose records: on quorum queues commands may be ended.
func isClassic(c *command, _ Fault) bool { return c.of.host.w.plan.QueueType != rabbit.QueuesQuorum }
