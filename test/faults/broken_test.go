package faults

import (
	"path/filepath"
	"slices"
	"testing"

	"berth/test/broken"
)

// mutant is a berth that was broken on purpose, and the faults under which its
// commands must be found to overlap.
type mutant struct {
	name     string   // in package broken
	under    []string // names of faults
	mode     string   // of the witness
	protocol string
}

var mutants = []mutant{
	{
		name: "its commands have no deadline", mode: "plain",
		under: []string{"silent partition", "supervisor stopped and continued"},
	},
	{
		name: "it does not wait for the last holder", mode: "stubborn",
		under: []string{"reset and no way back"},
	},
	{
		name: "it verifies A only", mode: "plain",
		under: []string{"B vanished, and nobody is told"},
	},
	{
		name: "it starts as soon as it has B", mode: "stubborn", protocol: plainProtocol,
		under: []string{"reset and no way back"},
	},
}

// A suite that finds nothing proves something only if it finds what is there.
func TestBrokenBerthIsFoundOut(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			berth := built(t, broken.Named(m.name))
			for _, f := range named(t, m.under...) {
				t.Run(f.name, func(t *testing.T) {
					f.stage.binary, f.stage.mode, f.stage.protocol = berth, m.mode, m.protocol
					f.stage.broken = true
					f.findOut(t)
				})
			}
		})
	}
}

// findOut tries a few times: a waiter that misses its baton comes too late to
// overlap.
func (f fault) findOut(t *testing.T) {
	r := results.row("BROKEN ON PURPOSE: "+f.name, 2)
	const tries = 5
	for range tries {
		st := f.stage
		st.flags = append(short, st.flags...)
		v := f.play(open(t, rabbit, st), r)
		if len(v.Overlaps) > 0 {
			t.Log(v.Overlaps[0])
			return
		}
	}
	t.Errorf("no overlap was found in %d runs of %s with a berth that has to overlap", tries, f.name)
}

// named returns the faults that have these names.
func named(t *testing.T, names ...string) (all []fault) {
	t.Helper()
	for _, f := range slices.Concat(faults, successions) {
		if slices.Contains(names, f.name) {
			all = append(all, f)
		}
	}
	if len(all) != len(names) {
		t.Fatalf("%d of the faults %q were found", len(all), names)
	}
	return all
}

// built returns the path of a berth that is broken.
func built(t testing.TB, b broken.Berth) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "berth")
	if err := b.Build("../..", path); err != nil {
		t.Fatal(err)
	}
	return path
}
