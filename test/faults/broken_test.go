package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
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
	protocol string
}

var mutants = []mutant{
	{
		name: "its commands have no deadline", file: "supervisor/loop/slot.go",
		old: "l.deadline = since.Add(lease - l.cfg.Margin)", new: "l.deadline = since.Add(60 * lease)",
		under: []string{"silent partition", "supervisor stopped and continued"}, mode: "plain",
	},
	{
		name: "it does not wait for the last holder", file: "lock/rabbit/ledger/history.go",
		old: "longest = max(longest, r.handover(maxHandover))", new: "",
		under: []string{"reset and no way back"}, mode: "stubborn",
	},
	{
		name: "it verifies A only", file: "lock/rabbit/holding/verify.go",
		old: "if err := h.Claim.Prove(background); err != nil || !h.Claim.Started() {", new: "if err := error(nil); true {",
		under: []string{"B vanished, and nobody is told"}, mode: "plain",
	},
	{
		name: "it starts as soon as it has B", file: "lock/rabbit/holding/plain.go",
		old: "left := h.lease - time.Since(h.won)", new: "left := time.Duration(0)",
		under: []string{"reset and no way back"}, mode: "stubborn", protocol: plainProtocol,
	},
}

// A suite that finds nothing proves something only if it finds what is there.
func TestBrokenBerthIsFoundOut(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			broken := m.build(t)
			for _, f := range named(t, m.under...) {
				t.Run(f.name, func(t *testing.T) {
					f.stage.binary, f.stage.mode, f.stage.protocol = broken, m.mode, m.protocol
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

// build builds the mutant, with one file of the tree replaced.
func (m mutant) build(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../..", m.file))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte(m.old)); n != 1 {
		t.Fatalf("%s has %q %d times, not once; bring the mutant up to date", m.file, m.old, n)
	}
	dir := t.TempDir()
	changed, overlay, to := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir,
		"berth")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	err = errors.Join(err,
		os.WriteFile(changed, bytes.Replace(text, []byte(m.old), []byte(m.new), 1), 0o600),
		os.WriteFile(overlay, list, 0o600))
	if err == nil {
		err = build("../..", ".", to, "-overlay", overlay)
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}
