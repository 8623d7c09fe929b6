package faults

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// mutant is a berth that was broken on purpose, and the faults under which its
// commands must be found to overlap.
type mutant struct {
	name     string
	file     string // below the top of the tree
	old, new string
	under    []string // names of faults
	mode     string   // of the witness
}

var mutants = []mutant{
	{
		name: "its commands have no deadline", file: "supervisor/hold.go",
		old: "m.deadline = since.Add(lease - m.cfg.Margin)", new: "m.deadline = since.Add(60 * lease)",
		under: []string{"silent partition", "supervisor stopped and continued"}, mode: "plain",
	},
	{
		name: "it does not wait for the last holder", file: "lock/rabbit/ledger.go",
		old: "return min(time.Duration(h.newest.Handover)*time.Millisecond, longestHandover)", new: "return 0",
		under: []string{"reset and no way back"}, mode: "stubborn",
	},
	{
		name: "it verifies A only", file: "lock/rabbit/verify.go",
		old: `h.judge(h.checks.look(h.b), "its queue is gone")`, new: "nil",
		under: []string{"B vanished, and nobody is told"}, mode: "plain",
	},
}

// A suite that finds nothing proves something only if it finds what is there.
func TestBrokenBerthIsFoundOut(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			broken := m.build(t)
			for _, name := range m.under {
				t.Run(name, func(t *testing.T) {
					f := named(t, name)
					f.stage.binary, f.stage.mode = broken, m.mode
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

func named(t *testing.T, name string) fault {
	t.Helper()
	for _, f := range faults {
		if f.name == name {
			return f
		}
	}
	t.Fatalf("there is no fault %q", name)
	return fault{}
}

// build builds the mutant from a copy of the tree.
func (m mutant) build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("..")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, m.file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte(m.old)); n != 1 {
		t.Fatalf("%s has %q %d times, not once; bring the mutant up to date", m.file, m.old, n)
	}
	text = bytes.Replace(text, []byte(m.old), []byte(m.new), 1)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "berth")
	if err := build(dir, ".", to); err != nil {
		t.Fatal(err)
	}
	return to
}
