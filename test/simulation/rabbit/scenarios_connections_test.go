//go:build simulation

package rabbit

import (
	"time"
)

func permissionsOfUsers(w *world) {
	user := w.prefix
	w.operator.user(user, "^"+w.q("mine"), "^$", "^"+w.q("mine"))
	guest, a := w.login("guest"), w.loginAs("a", user, "secret", 0)
	guest.declare(1, w.q("other"), "durable", ledger)
	a.declare(1, w.q("mine"), "durable", ledger)
	a.declare(1, w.q("theirs"), "durable", ledger)
	a.declare(1, w.q("other"), "durable", args{"x-max-length": int64(-1)})
	a.look(1, w.q("other"))
	a.look(1, w.q("theirs"))
	a.publish(1, letter{number: 1, key: w.q("mine")})
	a.consume(1, w.q("other"), "c", "", nil)
	a.get(1, w.q("other"), "")
	a.delete(1, w.q("other"), "")
	a.purge(1, w.q("other"))
	a.consume(1, w.q("mine"), "c", "", nil)
	w.operator.user(user, "^$", "amq.default", "^$")
	b := w.loginAs("b", user, "secret", 0)
	b.publish(1, letter{number: 2, key: w.q("mine")})
	b.look(1, w.q("mine"))
	guest.delete(1, w.q("other"), "")
	guest.delete(1, w.q("mine"), "")
}

func channels(w *world) {
	a := w.login("a")
	a.closeChannel(1)
	a.reopen(1)
	a.do(1, channelFlow, "channel.flow on", writer{[]byte{1}})
	a.do(0, connectionUpdateSecret, "update-secret", func() (w writer) {
		w.long("other")
		w.short("renewed")
		return w
	}())
	a.do(9, queueDeclare, "declare on a channel that is not open", a.declaration("x", "", nil))
	b := w.login("b")
	b.reopen(2)
	c := w.login("c")
	c.do(1, method(77<<16|1), "an unknown method", writer{})
	d := w.login("d")
	d.do(1, channelFlow, "channel.flow off", writer{[]byte{0}})
}

// A refusal closes its channel alone, and what the channel had is back before the client hears of it.
func closedByRefusal(w *world) {
	a, b := w.login("a"), w.login("b")
	q := w.q("q")
	a.declare(2, q, "durable", ledger)
	a.publish(2, letter{number: 1, key: q}, letter{number: 2, key: q})
	a.consume(1, q, "c", "", nil)
	b.consume(1, q, "d", "", nil)
	a.look(1, w.q("none")) // whether a broker still does what is sent behind it depends on the moment
	a.look(2, q)
	b.nack(1, 0, "multiple requeue")
	a.delete(2, q, "")
}

func closedByOperator(w *world) {
	a, b := w.login("a"), w.login("b")
	q := w.q("q")
	a.declare(1, w.q("own"), "exclusive", empty)
	a.declare(1, q, "durable", ledger)
	a.publish(1, letter{number: 1, key: q}, letter{number: 2, key: q})
	a.consume(1, q, "c", "exclusive", nil)
	w.step("an operator closes the connection", func() { w.operator.closeConnection(w.prefix + ".a") })
	b.look(1, w.q("own"))
	b.consume(2, q, "c", "exclusive", nil)
	b.delete(3, q, "")
}

func cutConnections(w *world) {
	a, b := w.login("a"), w.login("b")
	own, q := w.q("own"), w.q("q")
	a.declare(1, own, "exclusive", empty)
	a.declare(1, q, "durable", ledger)
	b.consume(1, q, "c", "", nil)
	a.consume(1, q, "d", "", nil)
	b.publish(2, letter{number: 1, key: q}, letter{number: 2, key: q}, letter{number: 3, key: q})
	a.cut()
	w.sleep(200 * time.Millisecond)
	b.declare(2, own, "exclusive", empty)
	b.delete(2, q, "")
}

func logins(w *world) {
	w.loginAs("a", "guest", "wrong", 0)
	w.loginAs("b", "nobody", "wrong", 0)
	w.operator.user(w.prefix+"-without", "", "", "")
	w.loginAs("c", "guest", "guest", 1)
}

// A client that says nothing is given up between the second and the third heartbeat.
func silence(w *world) {
	a, b := w.loginAs("a", "guest", "guest", 1), w.login("b")
	a.declare(1, w.q("own"), "exclusive", empty)
	a.beat(500*time.Millisecond, 3*time.Second)
	b.look(1, w.q("own"))
	w.sleep(4 * time.Second)
	b.look(1, w.q("own"))
}

func alarms(w *world) {
	a, b, c := w.loginAs("a", "guest", "guest", 5), w.login("b"), w.login("c")
	q := w.q("q")
	a.declare(1, q, "durable", ledger)
	a.declare(1, w.q("a"), "exclusive", empty)
	a.confirms(2)
	a.publish(2, letter{number: 1, key: q, options: "mandatory"})
	b.confirms(2)
	w.step("an alarm begins", func() { w.operator.alarm(true) })
	a.look(1, q)
	b.declare(1, w.q("b"), "exclusive", empty)
	a.publish(2, letter{number: 2, key: q, options: "mandatory"})
	a.look(1, q)
	b.look(1, q)
	b.consume(3, q, "c", "", nil)
	d := w.login("d")
	d.confirms(1)
	d.publish(1, letter{number: 3, key: q, options: "mandatory"}, letter{number: 4, key: w.q("none"), options: "mandatory"})
	d.look(2, q)
	c.look(1, w.q("a"))
	a.cut()
	w.sleep(3 * time.Second)
	c.look(1, w.q("a"))
	e := w.login("e")
	e.declare(1, w.q("e"), "exclusive", empty)
	e.confirms(1)
	e.publish(1, letter{number: 5, key: q, options: "mandatory"})
	e.cut() // without heartbeats
	w.sleep(time.Second)
	c.look(1, w.q("e"))
	w.step("the alarm is over", func() { w.operator.alarm(false) })
	d.look(2, q)
	c.look(1, w.q("e"))
	b.delete(1, q, "")
}

func restarts(w *world) {
	a := w.login("a")
	q := w.q("q")
	a.declare(1, q, "durable", ledger)
	a.declare(1, w.q("own"), "exclusive", empty)
	a.declare(1, w.q("quorum"), "durable", quorum)
	a.confirms(1)
	a.publish(1, letter{number: 1, key: q, options: "persistent"}, letter{number: 2, key: q},
		letter{number: 3, key: q, options: "persistent"})
	a.publish(1, letter{number: 4, key: w.q("quorum")})
	a.get(1, q, "")
	w.step("the node is restarted", func() { w.operator.restart() })
	b := w.login("b")
	b.look(1, w.q("own"))
	b.look(1, q)
	b.consume(1, q, "c", "", nil)
	b.get(2, w.q("quorum"), "")
	b.delete(3, q, "")
	b.delete(3, w.q("quorum"), "")
}

// What a client may log in with, and how it is told that it may not.
func mechanisms(w *world) {
	for _, of := range []struct {
		name, mechanism, response string
		told                      bool
	}{{"a", "EXTERNAL", "", true}, {"b", "NONE", "", false}, {"c", "PLAIN", "\x00guest\x00wrong", true},
		{"d", "PLAIN", "\x00guest\x00wrong", false}, {"e", "PLAIN", "guest", true}, {"f", "ANONYMOUS", "", true}} {
		c := w.greet(of.name)
		c.do(0, connectionStartOK, of.mechanism, c.credentials(of.mechanism, of.response, of.told))
		w.sleep(time.Second)
		w.sleep(4 * time.Second)
		if of.name == "c" {
			c.do(0, connectionCloseOK, "close-ok", writer{})
		}
	}
}

// Which users may say that a message is another user's: those that had the tag when they logged in.
func impersonators(w *world) {
	user, q := w.prefix, w.q("q")
	w.operator.user(user, ".*", ".*", ".*")
	guest, a := w.login("guest"), w.loginAs("a", user, "secret", 0)
	guest.declare(1, q, "durable", ledger)
	w.step("the user becomes an impersonator", func() { w.operator.tag(user, "impersonator") })
	a.publish(1, letter{number: 1, key: q, user: "guest"})
	b := w.loginAs("b", user, "secret", 0)
	b.confirms(1)
	for n, as := range []string{"guest", user, "nobody"} {
		b.publish(1, letter{number: n + 2, key: q, user: as})
	}
	guest.consume(1, q, "c", "", nil)
	guest.delete(2, q, "")
}

// Of a message with a body only the header is read under an alarm.
func diskAlarms(w *world) {
	a, b := w.login("a"), w.login("b")
	q := w.q("q")
	a.declare(1, q, "durable", ledger)
	a.confirms(2)
	b.confirms(2)
	w.step("the disk is full", func() { w.operator.diskAlarm(true) })
	a.publish(2, letter{number: 1, key: q, body: "text"})
	b.look(1, q)
	w.step("memory, too", func() { w.operator.alarm(true) })
	b.publish(2, letter{number: 2, key: q})
	w.step("the disk is not full any more", func() { w.operator.diskAlarm(false) })
	c := w.login("c")
	c.publish(2, letter{number: 3, key: q})
	w.step("nor is memory", func() { w.operator.alarm(false) })
	b.look(1, q)
	b.delete(1, q, "")
}
