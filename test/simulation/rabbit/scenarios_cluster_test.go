//go:build simulation

package rabbit

import "time"

// lock makes the queues of a lock: T is at home on node 0, away on node 1, and B is that of h, on node 1. It returns a
// client of node 1, and one of node 0.
func makeLock(w *world) (h, o *client) {
	h, o = w.loginAt(1, "h", "guest", "guest", 0), w.login("o")
	o.declare(1, w.q("T"), "durable", ledger)
	h.declare(1, w.q("away"), "durable", ledger)
	h.declare(1, w.q("Q"), "durable", quorum)
	h.declare(1, w.q("B"), "exclusive", empty)
	h.confirms(2)
	o.confirms(2)
	h.publish(2, letter{number: 1, key: w.q("T"), options: "mandatory persistent"})
	h.publish(2, letter{number: 2, key: w.q("away"), options: "mandatory persistent"})
	h.publish(2, letter{number: 3, key: w.q("Q"), options: "mandatory persistent"})
	h.consume(1, w.q("T"), "t", "exclusive", nil)
	h.consume(1, w.q("Q"), "q", "", nil)
	o.consume(1, w.q("Q"), "q", "", nil)
	return h, o
}

// survey has a client look at all of it, and publish to all of it.
func (c *client) survey() {
	for n, name := range []string{"T", "away", "B"} {
		channel := uint16(n + 4)
		c.reopen(channel)
		c.look(channel, c.w.q(name))
	}
	for n, name := range []string{"T", "away", "B", "Q", "none"} {
		c.publish(2, letter{number: 10 + n, key: c.w.q(name), options: "mandatory persistent"})
	}
}

func nodeKilled(w *world) {
	_, o := makeLock(w)
	w.step("node 1 is killed", func() {
		w.operator.kill(1)
		time.Sleep(3 * time.Second)
	})
	o.survey()
	o.declare(3, w.q("B"), "exclusive", empty)
	o.reopen(7)
	o.consume(7, w.q("T"), "t", "exclusive", nil)
	w.step("node 1 starts", func() {
		w.operator.start(1)
		time.Sleep(3 * time.Second)
	})
	again := w.loginAt(1, "again", "guest", "guest", 0)
	again.look(1, w.q("B"))
	again.look(2, w.q("away"))
	again.declare(3, w.q("C"), "exclusive", empty)
	p := w.login("p")
	p.look(1, w.q("away"))
}

func nodeHung(w *world) {
	_, o := makeLock(w)
	w.step("node 1 hangs", func() { w.operator.hang(1) })
	w.sleep(time.Second)
	for n, name := range []string{"T", "away", "B"} {
		p := w.login(name)
		p.confirms(2)
		p.look(1, w.q(name))
		p.publish(2, letter{number: 20 + n, key: w.q(name), options: "mandatory persistent"})
	}
	o.declare(3, w.q("B"), "exclusive", empty)
	w.step("node 1 goes on", func() { w.operator.resume(1) })
	w.sleep(time.Second)
	p := w.login("p")
	p.look(1, w.q("B"))
}

func clusterSplit(w *world) {
	h, o := makeLock(w)
	w.step("node 1 is cut off", func() {
		w.operator.split(1)
		time.Sleep(3 * time.Second)
	})
	o.survey()
	h.survey()
	o.declare(3, w.q("B"), "exclusive", empty)
	o.declare(3, w.q("C"), "exclusive", empty)
	w.step("node 1 is back", func() {
		w.operator.rejoin(1)
		time.Sleep(3 * time.Second)
	})
	h.look(3, w.q("B"))
	h.look(3, w.q("T"))
	h.look(3, w.q("C"))
	p := w.login("p")
	p.look(1, w.q("B"))
	p.look(1, w.q("away"))
}

// A holder is lost on a node that is cut off: what becomes of its queues once the node is back.
func lossInSplit(w *world) {
	h, o := w.loginAt(1, "h", "guest", "guest", 0), w.login("o")
	for n, name := range []string{"B", "D"} {
		h.declare(uint16(n+1), w.q(name), "exclusive", empty)
	}
	w.step("node 1 is cut off", func() {
		w.operator.split(1)
		time.Sleep(3 * time.Second)
	})
	h.delete(2, w.q("D"), "")
	h.cut()
	m := w.loginAt(1, "m", "guest", "guest", 0)
	m.look(1, w.q("B"))
	m.declare(2, w.q("B"), "exclusive", empty)
	m.declare(3, w.q("C"), "exclusive", empty)
	w.step("node 1 is back", func() {
		w.operator.rejoin(1)
		time.Sleep(3 * time.Second)
	})
	for n, name := range []string{"B", "D", "C"} {
		o.look(uint16(n+1), w.q(name))
	}
	w.sleep(35 * time.Second)
	p := w.login("p")
	for n, name := range []string{"B", "D", "C"} {
		p.declare(uint16(n+1), w.q(name), "exclusive", empty)
	}
}

// The same where the split lasts longer than the metadata store is waited for.
func lossInLongSplit(w *world) {
	h, o := w.loginAt(1, "h", "guest", "guest", 0), w.login("o")
	g := w.loginAt(1, "g", "guest", "guest", 0)
	g.declare(1, w.q("D"), "exclusive", empty)
	h.declare(1, w.q("B"), "exclusive", empty)
	m := w.loginAt(1, "m", "guest", "guest", 0)
	w.step("node 1 is cut off", func() {
		w.operator.split(1)
		time.Sleep(3 * time.Second)
	})
	h.cut()
	g.delete(1, w.q("D"), "")
	m.declare(2, w.q("C"), "exclusive", empty)
	w.sleep(40 * time.Second)
	w.step("node 1 is back", func() {
		w.operator.rejoin(1)
		time.Sleep(3 * time.Second)
	})
	for n, name := range []string{"B", "D", "C"} {
		o.look(uint16(n+1), w.q(name))
	}
	w.sleep(35 * time.Second)
	p := w.login("p")
	for n, name := range []string{"B", "D", "C"} {
		p.declare(uint16(n+1), w.q(name), "exclusive", empty)
	}
}
