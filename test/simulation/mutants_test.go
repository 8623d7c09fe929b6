//go:build simulation

package simulation

import (
	"path/filepath"
	"regexp"
	"testing"

	"berth/test/simulation/overlay"
)

// mutant is a berth that was broken on purpose.
type mutant struct {
	name     string
	file     string // below the top of the tree
	old, new string
	kind     string // of the lock, under which it has to be found
}

var mutants = []mutant{
	{
		name: "its commands have no deadline", file: "supervisor/loop/slot.go", kind: "mutex",
		old: "l.deadline = since.Add(lease - l.cfg.Margin)", new: "l.deadline = since.Add(60 * lease)",
	},
	{
		name: "it does not wait for the last holder", file: "lock/rabbit/ledger/history.go", kind: "mutex",
		old: "longest = max(longest, r.handover(longestHandover))", new: "_ = r",
	},
	{
		name: "it verifies A only", file: "lock/rabbit/holding/verify.go", kind: "persistent-mutex",
		old: "if err := h.Prove(background); err != nil || !h.Started() {", new: "if err := error(nil); true {",
	},
	{
		name: "it starts as soon as it has B", file: "lock/rabbit/plain/held.go", kind: "plain-mutex",
		old: "left := h.lease - time.Since(h.won)", new: "left := time.Duration(0)",
	},
	{
		name: "it gives the slot back before the tree is dead", file: "supervisor/loop/health.go", kind: "mutex",
		old: "func (l *loop) tend() {\n",
		new: "func (l *loop) tend() {\nif l.state == supervisor.Stopping && l.held != nil && !l.health.withheld {\n" +
			"l.health.withheld = true; go l.held.Release(context.Background()) }\n",
	},
	{
		name: "it has no handover delay", file: "lock/rabbit/holding/wait.go", kind: "mutex",
		old: "return wait - time.Since(w.alone)", new: "return 0 * wait",
	},
	{
		name: "it takes a nack for free", file: "lock/rabbit/transport/publish.go", kind: "mutex",
		old: "p = Unknown", new: "p = Absent",
	},
	{
		name: "its deadline counts from the end of a verification", file: "supervisor/calls/calls.go", kind: "mutex",
		old: "r.Since, err = c.prove(ctx, held, lossAt, c.Doubts)",
		new: "_, err = c.prove(ctx, held, lossAt, c.Doubts); r.Since = c.clock.Now()",
	},
	{
		name: "it takes the baton for the lock", file: "lock/rabbit/holding/wait.go", kind: "mutex",
		old: "return h.mayStart || h.Term() != 0 && (known.Over() || h.door.Load().Missing && known.Blank())",
		new: "return h.mayStart || h.Term() != 0",
	},
	{
		name: "it says that it has heard of everybody's end", file: "lock/rabbit/holding/held.go", kind: "mutex",
		old: "Message: h.holding().Released(!h.MayStart())", new: "Message: h.holding().Released(false)",
	},
	{
		name: "its guard says so", file: "lock/rabbit/holding/held.go", kind: "mutex",
		old: "Early: !h.MayStart()", new: "Early: false",
	},
	{
		name: "it does not record itself again", file: "lock/rabbit/holding/reclaim.go", kind: "mutex",
		old: "if err := h.Writer.Write(ctx, h.t, h.record(h.holding())); err != nil {\n\t\treturn err\n\t}\n\tif state == emptied",
		new: "if state == emptied",
	},
	{
		name: "it starts though its guard has released it", file: "lock/rabbit/holding/wait.go", kind: "mutex",
		old: "case known.Disowned() && w.Term() != 0:", new: "case false:",
	},
	{
		name: "it does not record itself after somebody who was there meanwhile", file: "lock/rabbit/holding/wait.go",
		kind: "mutex", old: "case w.Term() != 0 && !known.Current(): // somebody was here meanwhile, and has gone",
		new: "case false:",
	},
	{
		name: "it starts by an old proof", file: "lock/rabbit/holding/wait.go", kind: "mutex",
		old: "case w.Session.Dialer.Clock.Until(known.Proven.Add(w.lease/2)) <= 0:", new: "case false:",
	},
}

// tried is how many seeds are tried at most until a mutant has to be found.
const tried = "1000"

// A simulation that finds nothing proves something only if it finds what is there.
func TestBrokenBerthIsFoundOut(t *testing.T) {
	if !*broken {
		t.Skip("it takes minutes: see -mutants")
	}
	simulated := regexp.MustCompile(`(\d+) seeds, .* (\d+) seeds with violations`)
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			path, err := filepath.Abs(filepath.Join("../..", m.file))
			if err != nil {
				t.Fatal(err)
			}
			out, err := child(t, []overlay.Change{{File: path, Old: m.old, New: m.new}}, "-test.run=^TestSeeds$",
				"-test.v", "-until-found", "-seeds="+tried, "-kind="+m.kind)
			found := simulated.FindStringSubmatch(out)
			switch {
			case found == nil:
				t.Fatalf("it was not simulated:\n%s", out)
			case err == nil:
				t.Errorf("it is not found out by %s seeds", found[1])
			default:
				t.Logf("it is found out by seed %s\n%s", found[1], out)
			}
		})
	}
}
