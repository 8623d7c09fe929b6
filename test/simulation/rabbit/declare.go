package rabbit

import (
	"fmt"
	"strings"
)

// declaration is what queue.declare says.
type declaration struct {
	name                           string
	durable, exclusive, autoDelete bool
	arguments                      table
	noWait                         bool
}

// lineEnds removes what the broker removes from names.
var lineEnds = strings.NewReplacer("\r", "", "\n", "")

func (ch *channel) declare(m method, r *reader) {
	r.u16()
	name, bits := lineEnds.Replace(r.short()), r.bits()
	d := &declaration{name, bits[1], bits[2], bits[3], r.table(), bits[4]}
	if bits[0] {
		ch.look(m, d)
		return
	}
	ch.make(m, d)
}

// look declares passively.
func (ch *channel) look(m method, d *declaration) {
	c := ch.cluster
	if strings.HasPrefix(d.name, directReply) {
		if c.replies[d.name] == nil {
			refuse(notFound, "no %s", inVhost(d.name))
		}
		ch.declared(d, 0, 1)
		return
	}
	if c.config.Version >= V4_3 { // others let everybody look
		c.permitAny(ch.conn.user, d.name)
	}
	ch.withQueue(d.name, func(q *queue) {
		ch.call(m, q, func() func() {
			messages, consumers := q.stat()
			return func() {
				ch.owns(q)
				ch.declared(d, messages, consumers)
			}
		}, func() { ch.goneInCall(q) })
	})
}

// declared says that the queue is there.
func (ch *channel) declared(d *declaration, messages, consumers int) {
	ch.recent = d.name
	if d.noWait {
		return
	}
	var w writer
	w.short(d.name)
	w.u32(uint32(messages))
	w.u32(uint32(consumers))
	ch.emit(queueDeclareOK, w.b)
}

// make declares a queue, and makes it if it is not there.
func (ch *channel) make(m method, d *declaration) {
	c := ch.cluster
	d.durable = d.durable && !d.exclusive
	switch {
	case d.name == "":
		d.name = c.token("amq.gen-")
	case strings.HasPrefix(d.name, "amq."):
		refuse(accessRefused, "queue name '%s' contains reserved prefix 'amq.*'", d.name)
	}
	c.permit(ch.conn.user, mayConfigure, d.name, inVhost(d.name))
	q, away := ch.node.book.live[d.name], ch.node.book.away[d.name]
	switch {
	case q != nil:
		ch.redeclare(m, q, d)
	case away != nil:
		ch.refuseAway(away)
	default:
		ch.create(m, d)
	}
}

// redeclare declares a queue that is there.
func (ch *channel) redeclare(m method, q *queue, d *declaration) {
	q.equals(ch, d)
	if d.noWait {
		ch.declared(d, 0, 0)
		return
	}
	ch.call(m, q, func() func() {
		messages, consumers := q.stat()
		return func() { ch.declared(d, messages, consumers) }
	}, func() { ch.goneInCall(q) })
}

// create makes a queue.
func (ch *channel) create(m method, d *declaration) {
	c := ch.cluster
	kind := checkArguments(c.config.Version, d)
	switch {
	case kind == "quorum" && (!d.durable || d.exclusive):
		refuse(preconditionFailed, "invalid property '%s' for %s", map[bool]string{true: "exclusive-owner",
			false: "non-durable"}[d.exclusive], inVhost(d.name))
	}
	ch.pause()
	c.write(ch.node, func() {
		if ch.dead {
			return
		}
		if ch.node.book.live[d.name] != nil { // somebody was faster
			ch.resume(func() { ch.guard(m, func() { ch.make(m, d) }) })
			return
		}
		q := c.newQueue(ch, d, kind)
		c.log("connection %d (%s): makes queue %s", ch.conn.id, ch.conn.name, d.name)
		if d.exclusive {
			ch.conn.exclusive = append(ch.conn.exclusive, q)
		}
		ch.resume(func() { ch.guard(m, func() { ch.declared(d, 0, 0) }) })
		if d.exclusive && ch.conn.dead {
			ch.tell(&q.process, func() { q.delete("its connection is gone") })
		}
	}, func() {
		ch.resume(func() {
			ch.guard(m, func() {
				refuse(internalError, "Could not declare %s on node '%s' because the metadata "+
					"store operation timed out", inVhost(d.name), ch.node.name())
			})
		})
	})
}

// withQueue finds a queue that exists.
func (ch *channel) withQueue(name string, f func(q *queue)) {
	if q := ch.node.book.live[name]; q != nil {
		f(q)
		return
	}
	if away := ch.node.book.away[name]; away != nil {
		ch.refuseAway(away)
	}
	refuse(notFound, "no %s", inVhost(name))
}

// refuseAway refuses what is asked of a queue whose node is down.
func (ch *channel) refuseAway(q *queue) {
	refuse(notFound, "home node '%s' of durable %s is down or inaccessible", q.node.name(), inVhost(q.name))
}

// goneInCall is the answer of a queue that has gone since it was found.
func (ch *channel) goneInCall(q *queue) {
	if ch.node.book.live[q.name] == q && ch.cluster.config.Version >= V4_0 {
		ch.awaitNode(ch.doing, q, ch.again)
		return
	}
	if ch.node.book.away[q.name] == q || ch.node.book.live[q.name] == q {
		ch.refuseAway(q)
	}
	refuse(notFound, "no %s", inVhost(q.name))
}

// owns refuses a queue that is exclusive to another connection.
func (ch *channel) owns(q *queue) {
	if q.owner != nil && q.owner != ch.conn {
		ch.refuseLocked(q.name)
	}
}

func (ch *channel) refuseLocked(name string) {
	refuse(resourceLocked, "cannot obtain exclusive access to locked %s. It could be originally declared on another "+
		"connection or the exclusive property value does not match that of the original declaration.", inVhost(name))
}

// equals refuses a declaration that differs from the queue.
func (q *queue) equals(ch *channel, d *declaration) {
	var owner *connection
	if d.exclusive {
		owner = ch.conn
	}
	if q.owner != owner {
		ch.refuseLocked(q.name)
	}
	same := func(what string, is, wanted bool) {
		if is != wanted {
			refuse(preconditionFailed, "inequivalent arg '%s' for %s: received '%t' but current is '%t'", what,
				inVhost(q.name), wanted, is)
		}
	}
	same("durable", q.durable, d.durable)
	same("auto_delete", q.autoDelete, d.autoDelete)
	for _, key := range comparedArguments {
		is, wanted := q.arguments[key], d.arguments[key]
		if key == "x-queue-type" { // classic is what a queue is without it
			is, wanted = orClassic(is), orClassic(wanted)
		}
		switch {
		case is.class() == wanted.class() && is.v == wanted.v:
		case is.kind == "", wanted.kind == "":
			refuse(preconditionFailed, "inequivalent arg '%s' for %s: received %s but current is %s", key,
				inVhost(q.name), wanted.described(), is.described())
		default:
			refuse(preconditionFailed, "inequivalent arg '%s' for %s: received '%v' but current is '%v'", key,
				inVhost(q.name), wanted.v, is.v)
		}
	}
}

func orClassic(v value) value {
	if v.kind == "" {
		return value{"longstr", "classic"}
	}
	return v
}

// class is what counts of a type where values are compared: all integers are one.
func (v value) class() string {
	if _, isNumber := v.v.(int64); isNumber {
		return "number"
	}
	return v.kind
}

func (v value) described() string {
	if v.kind == "" {
		return "none"
	}
	return fmt.Sprintf("the value '%v' of type '%s'", v.v, v.kind)
}

func (ch *channel) orRecent(name string) string {
	if name != "" {
		return name
	}
	if ch.recent == "" {
		refuse(notFound, "no previously declared queue")
	}
	return ch.recent
}

func (ch *channel) deleteQueue(m method, r *reader) {
	r.u16()
	name, bits := ch.orRecent(r.short()), r.bits()
	ifUnused, ifEmpty, noWait := bits[0], bits[1], bits[2]
	ch.cluster.permit(ch.conn.user, mayConfigure, name, inVhost(name))
	ok := func(messages int) func() {
		return func() {
			if !noWait {
				var w writer
				w.u32(uint32(messages))
				ch.emit(queueDeleteOK, w.b)
			}
		}
	}
	q := ch.node.book.live[name]
	if q == nil && ch.node.book.away[name] == nil { // deleting what is not there is no error
		ok(0)()
		return
	}
	ch.withQueue(name, func(q *queue) {
		ch.owns(q)
		ch.call(m, q, func() func() {
			messages, consumers := q.stat()
			switch {
			case ifUnused && consumers > 0:
				return func() { refuse(preconditionFailed, "%s in use", inVhost(name)) }
			case ifEmpty && messages > 0:
				return func() { refuse(preconditionFailed, "%s not empty", inVhost(name)) }
			}
			return ch.erase(m, q, ok(messages))
		}, ok(0))
	})
}

// erase has a queue deleted, and returns what the channel does then: it waits for as long as the metadata store does not
// answer.
func (ch *channel) erase(m method, q *queue, ok func()) (then func()) {
	var outcome, wake func()
	end := func(f func()) func() {
		return func() {
			outcome = f
			if wake != nil {
				wake()
			}
		}
	}
	q.deleteOnce(fmt.Sprintf("connection %d (%s) deletes it", ch.conn.id, ch.conn.name), end(ok), end(func() {
		refuse(internalError, "The operation to delete the queue from the metadata store timed out")
	}))
	return func() {
		if outcome != nil {
			outcome()
			return
		}
		ch.pause()
		wake = func() { ch.resume(func() { ch.guard(m, outcome) }) }
	}
}

func (ch *channel) purge(m method, r *reader) {
	r.u16()
	name, noWait := ch.orRecent(r.short()), r.bits()[0]
	ch.cluster.permit(ch.conn.user, mayRead, name, inVhost(name))
	ch.withQueue(name, func(q *queue) {
		ch.owns(q)
		ch.call(m, q, func() func() {
			messages := q.purge()
			return func() {
				if !noWait {
					var w writer
					w.u32(uint32(messages))
					ch.emit(queuePurgeOK, w.b)
				}
			}
		}, func() { ch.goneInCall(q) })
	})
}
