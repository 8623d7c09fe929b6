// Package broken has berths that are broken on purpose: a suite that finds nothing proves something only if it finds them.
//
//	err := broken.Named("it has no handover delay").Build("../..", path)
//
// The simulation, the suite of faults and `make prove-mutants` take them from here.
package broken

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"berth/test/simulation/overlay"
)

// Berth is one that is broken.
type Berth struct {
	Name    string
	Changes []overlay.Change // of files below the top of the tree

	// Simulated is the kind of lock under which the simulation has to find it; "": it does not simulate what is broken.
	Simulated string
	Nodes     int // of the simulated broker; 0: one

	// Harmless says why it breaks no promise in what is simulated. It is tried all the same: one that is found out is not
	// harmless.
	Harmless string

	// Proved is with what berth-prove finds it soonest. The zero value: it is not known to.
	Proved Proof
}

// Proof is a run of berth-prove.
type Proof struct {
	Kind      string // of the lock, as `make prove-all` calls it
	Heartbeat string // of berth; half of its lease; "": as everywhere
	Flags     string // of berth-prove
}

// Named returns the one of that name. It panics if there is none.
func Named(name string) Berth {
	return All[slices.IndexFunc(All, func(b Berth) bool { return b.Name == name })]
}

// In returns the changes to the tree that has its top there.
func (b Berth) In(top string) ([]overlay.Change, error) {
	changes := slices.Clone(b.Changes)
	for i := range changes {
		path, err := filepath.Abs(filepath.Join(top, changes[i].File))
		if err != nil {
			return nil, err
		}
		changes[i].File = path
	}
	return changes, nil
}

// Build builds the program of that path from the tree that has its top there, which stays as it is.
func (b Berth) Build(top, path string) error {
	changes, err := b.In(top)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "berth-broken-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	list, err := overlay.Write(dir, changes)
	if err != nil {
		return err
	}
	path, err = filepath.Abs(path)
	cmd := exec.Command("go", "build", "-buildvcs=false", "-overlay", list, "-o", path, ".")
	cmd.Dir, cmd.Env = top, append(os.Environ(), "CGO_ENABLED=0")
	out, failed := cmd.CombinedOutput()
	if err := errors.Join(err, failed); err != nil {
		return fmt.Errorf("cannot build the berth of which %s: %w\n%s", b.Name, err, out)
	}
	return nil
}
