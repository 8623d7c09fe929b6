package local

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"berth/lock"
	"berth/lock/conformance"
	"berth/lock/local/slotdir"
)

func TestConformance(t *testing.T) {
	for name, looks := range map[string][]time.Duration{
		"as used":              slotdir.Looks,
		"woken by events only": nil, // a wake that gets lost then fails
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "made", "on demand")
			conformance.Run(t, conformance.Harness{
				Open: func(t *testing.T) lock.Backend {
					b := open(t, dir)
					b.looks = looks
					return b
				},
				AddSlot: func(t *testing.T, id lock.ID, slot int) {
					if err := os.WriteFile(open(t, dir).path(id).SlotPath(slot), nil, 0o600); err != nil {
						t.Fatal(err)
					}
				},
			})
		})
	}
}

func open(t *testing.T, dir string) *Backend {
	t.Helper()
	b, err := New(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
