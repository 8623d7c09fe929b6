package e2e

import (
	"strings"
	"syscall"
	"testing"
)

// maxName is how many bytes a lock's name may have.
const maxName = 243

// longestOfRunes is how many bytes a name may have that is not plain ASCII. From
// 4.0 on RabbitMQ ends a connection with 541 in the place of a refusal whose text
// it would have to cut; with names up to here it need not.
func longestOfRunes(t testing.TB, p place) int {
	if p.name != onHost.name && calmBroker(t).Since(4, 0) {
		return 32
	}
	return maxName
}

// oddNames returns names of locks that nobody else uses, by what is odd about
// them. A reply of a broker ends after 255 bytes, also in the middle of a name.
func oddNames(longestOfRunes int) map[string]string {
	short := map[string]string{"letters": "Füße 鎖", "quote": "it's", "percent": "a/b%"}
	for what, name := range short {
		short[what] = unique(name)
	}
	ascii, runes := unique("n"), unique("n")
	short["longest"] = ascii + strings.Repeat("n", maxName-len(ascii))
	runes += strings.Repeat("n", (longestOfRunes-len(runes))%len("鎖"))
	short["longest of runes"] = runes + strings.Repeat("鎖", (longestOfRunes-len(runes))/len("鎖"))
	return short
}

// wantNoTrouble checks that berth had nothing to complain of and no connection
// that broke.
func (b *berth) wantNoTrouble() {
	b.t.Helper()
	for _, line := range b.log() {
		level := line.text("@level")
		if level != "debug" && level != "info" && !strings.HasPrefix(line.message(), "berth run: ") { // why it ended
			b.t.Errorf("berth complained: %v", line)
		}
	}
	if n := len(b.logged("connected")); n != 1 {
		b.t.Errorf("berth connected %d times, not once", n)
	}
}

func TestLockWithAnOddName(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		for what, name := range oddNames(longestOfRunes(t, p)) {
			t.Run(what, func(t *testing.T) {
				c := contest{t, p.flags(t), "mutex", name}
				passedOn(c)
				c.kind, c.name = "semaphore", strings.Replace(name, "-", "_", 1) // in N-A-L a mutex is in its way
				c.administer("create", "--slots=1")
				passedOn(c)
				holder := c.run(plain)
				holder.awaitRuns(1)
				c.administer("resize", "--slots=2")
				c.wantFree()
				c.administer("resize", "--slots=1", "--wait")
				c.wantHeld()
				holder.stays()
				c.administer("destroy", "--wait")
				holder.awaitLog("slot removed")
				do(t, 75, c.args("true", "--try")...).wantOneLine("does not exist")
			})
		}
	}, onBroker, onBrokerNAL)
}

// passedOn has a lock held, refused to somebody who does not wait, and passed on
// to somebody who does.
func passedOn(c contest) {
	c.t.Helper()
	holder := c.run(`echo "$BERTH_NAME"; ` + plain)
	holder.awaitRuns(1)
	if want := c.name + "\n"; holder.stdout() != want {
		c.t.Errorf("BERTH_NAME is %q, not %q", holder.stdout(), want)
	}
	refused := do(c.t, 75, c.args("true", "--try")...)
	refused.wantOneLine("held")
	waiter := c.run("true")
	waiter.awaitLog("waiting: held by others")
	holder.signal(syscall.SIGTERM)
	holder.wantStatus(143)
	waiter.wantStatus(0)
	for _, b := range []*berth{holder, refused, waiter} {
		b.wantNoTrouble()
	}
}
