package supervisor

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Elsewhere in these tests it is a panic; see TestMain.
func TestTransitionThatIsNotInTheTableIsLoggedAndMade(t *testing.T) {
	strict, listed, said := unlisted, table[Running][ending], &page{}
	unlisted = logUnlisted
	table[Running][ending] = transition{do: listed.do}
	defer func() { unlisted, table[Running][ending] = strict, listed }()
	b := newBench(t, 0, func(_ *bench, cfg *Config) { cfg.Log = said.logger() })
	g := b.running()
	b.signals <- unix.SIGTERM
	g.awaitOrder(t, "TERM tree")
	b.signals <- unix.SIGINT
	g.awaitOrder(t, "INT tree") // as in the next state, and not the beginning of another sequence
	g.dies(term, 0)
	if o := b.end(); o.Status != 143 {
		t.Errorf("outcome %+v, want 143", o)
	}
	if n := said.count("a transition that the table of states does not have"); n != 1 {
		t.Errorf("it is said %d times", n)
	}
}
