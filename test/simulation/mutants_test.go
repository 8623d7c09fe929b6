//go:build simulation

package simulation

import (
	"flag"
	"fmt"
	"path/filepath"
	"regexp"
	"testing"

	"berth/test/simulation/overlay"
)

// mutant is a berth that was broken on purpose.
type mutant struct {
	name    string
	kind    string // of the lock, under which it has to be found
	nodes   int
	changes []overlay.Change // of files below the top of the tree

	// harmless says why it breaks no promise in what is simulated. It is tried all the same: one that is found out is not
	// harmless.
	harmless string
}

var mutants = []mutant{
	{name: "its commands have no deadline", changes: []overlay.Change{{File: "supervisor/loop/slot.go",
		Old: "l.deadline = since.Add(lease - l.cfg.Margin)", New: "l.deadline = since.Add(60 * lease)"}}},
	{name: "it does not wait for the last holder", changes: []overlay.Change{{File: "lock/rabbit/ledger/history.go",
		Old: "longest = max(longest, r.handover(maxHandover))", New: "_ = r"}}},
	{name: "it verifies A only", kind: "persistent-mutex", changes: []overlay.Change{{File: "lock/rabbit/holding/verify.go",
		Old: "if err := h.Claim.Prove(background); err != nil || !h.Claim.Started() {", New: "if err := error(nil); true {"}}},
	{name: "it starts as soon as it has B", kind: "plain-mutex", changes: []overlay.Change{{File: "lock/rabbit/holding/plain.go",
		Old: "left := h.lease - time.Since(h.won)", New: "left := time.Duration(0)"}}},
	{name: "it gives the slot back before the tree is dead", changes: []overlay.Change{
		{File: "supervisor/loop/health.go", Old: "import (\n", New: "import (\n\"context\"\n"},
		{File: "supervisor/loop/health.go", Old: "func (l *loop) tend() {\n",
			New: "func (l *loop) tend() {\nif l.state == supervisor.Stopping && l.held != nil && !l.health.withheld {\n " +
				"l.health.withheld = true; go l.held.Release(context.Background()) }\n"}}},
	{name: "it has no handover delay", changes: []overlay.Change{{File: "lock/rabbit/holding/wait.go",
		Old: "return wait - time.Since(w.alone)", New: "return 0 * wait"}}},
	{name: "its deadline counts from the end of a verification", changes: []overlay.Change{{File: "supervisor/calls/calls.go",
		Old: "r.Since, err = c.prove(ctx, held, lossAt, c.Doubts)",
		New: "_, err = c.prove(ctx, held, lossAt, c.Doubts); r.Since = c.clock.Now()"}}},
	{name: "it takes the baton for the lock", changes: []overlay.Change{{File: "lock/rabbit/holding/decide.go",
		Old: "return s.mayStart || s.term != 0 && (known.AllReleased() || s.missing && known.Blank())",
		New: "return s.mayStart || s.term != 0"}}},
	{name: "it releases as if it had heard of everybody's end", changes: []overlay.Change{{File: "lock/rabbit/holding/leave.go",
		Old: "Message: h.holding().Released(!h.MayStart())", New: "Message: h.holding().Released(false)"}}},
	{name: "its guard releases so", changes: []overlay.Change{{File: "lock/rabbit/holding/held.go",
		Old: "Early: !h.proof.MayStart()", New: "Early: false"}}},
	{name: "it releases so what it has not heard of", changes: []overlay.Change{{File: "lock/rabbit/holding/leave.go",
		Old: "h.Writer.Release(ctx, h.t, who, !h.MayStart()); e != nil", New: "h.Writer.Release(ctx, h.t, who, false); e != nil"}}},
	{name: "its terms are the clock alone", changes: []overlay.Change{
		{File: "lock/rabbit/ledger/history.go", Old: "max(h.own+1, h.above+1, h.Highest()+1, h.doubt.term+1, clock())",
			New: "max(h.own+1, clock())"},
		{File: "lock/rabbit/ledger/history.go", Old: "return h.own > h.Highest() && !h.Disowned()",
			New: "return h.own > 0 && !h.Disowned()"}}},
	{name: "it does not make a ledger again that was deleted", changes: []overlay.Change{{
		File: "lock/rabbit/holding/reclaim.go", Old: "return true, h.recordAgain(ctx)", New: "return true, nil"}}},
	{name: "it starts by an old proof, and its deadline counts from the start", changes: []overlay.Change{oldProof,
		{File: "supervisor/calls/calls.go", Old: "!enough(r.Since)", New: "false && !enough(r.Since)"},
		{File: "supervisor/loop/slot.go", Old: "\tl.proved(e.since)\n\tl.facts.Admitted",
			New: "\tl.proved(l.cfg.Clock.Now())\n\tl.facts.Admitted"}}},
	{name: "it gives the slot up when its connection is reset", changes: []overlay.Change{{File: "lock/rabbit/claim/claim.go",
		Old: "if c.Started() {", New: "if false {"}}},
	{name: "it gives the slot up when its ledger is purged", changes: []overlay.Change{{File: "lock/rabbit/holding/verify.go",
		Old: "return lock.Errorf(lock.ErrInDoubt, \"%s is held, but its ledger %s was %s\", h, h.t, state)",
		New: "return h.Claim.Lose(\"its ledger was purged\")"}}},
	{name: "it takes a ledger that it cannot reach for no news", nodes: 3, changes: []overlay.Change{{
		File: "lock/rabbit/holding/verify.go", Old: "return recorded, h.Claim.Judge(err, \"\")", New: "return recorded, nil"}}},
	{name: "it does not record itself again", nodes: 3, changes: []overlay.Change{{File: "lock/rabbit/holding/reclaim.go",
		Old: "if err := h.writeApart(ctx, h.holding()); err != nil {\n\t\treturn err\n\t}\n", New: ""}}},

	{name: "it starts by an old proof", changes: []overlay.Change{oldProof},
		harmless: "what a proof gives a command is a deadline that counts from it: where that leaves too little of the " +
			"lease the slot is proven again before the start, and a guard starts nothing after the deadline"},
	{name: "it starts though its guard has released it", changes: []overlay.Change{{File: "lock/rabbit/holding/decide.go",
		Old: "case known.Disowned() && s.term != 0:", New: "case false:"}},
		harmless: "a guard executes a will when its berth is gone, is told to end, or is past a deadline, and one that " +
			"waits has none: so who reads the own release does not go on to start"},
	{name: "it does not record itself after somebody who was there meanwhile", changes: []overlay.Change{{
		File: "lock/rabbit/holding/decide.go", Old: "case s.term != 0 && !known.Current():", New: "case false:"}},
		harmless: "nobody starts while one waits that is recorded: that one is the reader, or has B and the records in " +
			"hand. Where a cluster splits, records can cross (rule 3, TERM in the model): no order of events here " +
			"has come to that"},
	{name: "it takes a nack for free", changes: []overlay.Change{{File: "lock/rabbit/transport/publish.go",
		Old: "p = Unknown", New: "p = Absent"}},
		harmless: "a claim decides of B, and a look of A, T and W, whatever a probe has said. The one probe that is " +
			"believed is that of B by a reader that knows all to be released: see the next one"},
	{name: "it takes a slot for free whose B is there", changes: []overlay.Change{{File: "lock/rabbit/holding/enter.go",
		Old: "case b != transport.Absent && (free || !successor):", New: "case b != transport.Absent && false:"}},
		harmless: "B is there and all are released only while its owner waits outside with records in hand, and within " +
			"100 ms somebody else has both recorded itself and been released, who has seen everybody end: nobody " +
			"can on one node"},
}

var oldProof = overlay.Change{File: "lock/rabbit/holding/decide.go",
	Old: "case s.clock.Until(known.Proven.Add(s.lease/2)) <= 0:", New: "case false:"}

var tried = flag.Int("tried", 1000, "with -mutants: within how many `seeds` one has to be found out")

// A simulation that finds nothing proves something only if it finds what is there.
func TestBrokenBerthIsFoundOut(t *testing.T) {
	if !*broken {
		t.Skip("it takes minutes: see -mutants")
	}
	simulated := regexp.MustCompile(`(\d+) seeds, .* (\d+) seeds with violations`)
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			changes := make([]overlay.Change, len(m.changes))
			for i, c := range m.changes {
				path, err := filepath.Abs(filepath.Join("../..", c.File))
				if err != nil {
					t.Fatal(err)
				}
				changes[i] = overlay.Change{File: path, Old: c.Old, New: c.New}
			}
			if m.kind == "" {
				m.kind = "mutex"
			}
			out, err := child(t, build(t, changes), "-test.run=^TestSeeds$", "-test.v", "-until-found", fmt.Sprint("-seeds=", *tried),
				"-kind="+m.kind, fmt.Sprint("-nodes=", max(1, m.nodes)))
			found := simulated.FindStringSubmatch(out)
			switch {
			case found == nil:
				t.Fatalf("it was not simulated:\n%s", out)
			case err == nil && m.harmless == "":
				t.Errorf("it is not found out by %s seeds", found[1])
			case err == nil:
				t.Logf("it is not found out by %s seeds: %s", found[1], m.harmless)
			case m.harmless != "":
				t.Errorf("it took %s seeds to find it out, so it is not harmless\n%s", found[1], out)
			default:
				t.Logf("it took %s seeds to find it out\n%s", found[1], out)
			}
		})
	}
}
