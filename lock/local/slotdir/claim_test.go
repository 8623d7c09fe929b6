package slotdir

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"
)

func TestLookingKeepsNobodyFromAFreeSlot(t *testing.T) {
	d := Dir(filepath.Join(t.TempDir(), "lock"))
	if err := d.Make(); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	var lookers sync.WaitGroup
	for range 4 {
		lookers.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if _, err := d.Vacant(1); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 500 {
		c, err := d.Claim(1)
		if err != nil {
			t.Error(err)
			break
		}
		if free, err := d.Vacant(1); err != nil || free {
			t.Errorf("a slot that is held is vacant: %t, %v", free, err)
		}
		if _, err := d.Claim(1); !errors.Is(err, ErrHeld) {
			t.Errorf("another claim gives %v, want %v", err, ErrHeld)
		}
		if err := c.Free(); err != nil {
			t.Error(err)
		}
	}
	close(over)
	lookers.Wait()
}
