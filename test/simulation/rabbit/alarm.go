package rabbit

import "strings"

// published is told of each piece of a message that the client publishes: under an alarm the connection is blocked then,
// and nothing more is read from it.
func (o *connection) published() {
	if len(o.cluster.alarms) == 0 || o.blocked || o.phase != running {
		return
	}
	o.blocked = true
	o.cluster.log("connection %d (%s): blocked", o.id, o.name)
	if wanted, _ := o.capabilities["connection.blocked"].v.(bool); wanted {
		var w writer
		w.short("low on " + strings.Join(o.cluster.alarms, " & "))
		o.emitMethod(connectionBlocked, w.b)
	}
}

// unblock is told that no alarm is left.
func (o *connection) unblock() {
	if !o.blocked {
		return
	}
	o.blocked = false
	if o.ended {
		o.lose()
		return
	}
	o.cluster.log("connection %d (%s): goes on", o.id, o.name)
	if wanted, _ := o.capabilities["connection.blocked"].v.(bool); wanted {
		o.emitMethod(connectionUnblocked, nil)
	}
	o.parse()
}
