package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"berth/lock"
)

func TestActionThatMakesNoSlotLeavesNothingOfALockThatNeverWas(t *testing.T) {
	for name, target := range map[string]func(int) (int, error){
		"removed":    func(int) (int, error) { return 0, nil },
		"refused":    func(int) (int, error) { return 0, lock.ErrAbsent },
		"impossible": func(int) (int, error) { return lock.MaxSlots + 1, nil },
	} {
		t.Run(name, func(t *testing.T) {
			base := filepath.Join(t.TempDir(), "base")
			_, _, err := open(t, base).Administrator(semaphore).Resize(t.Context(), 5, target)
			if (err == nil) != (name == "removed") {
				t.Errorf("error is %v", err)
			}
			if _, err := os.Lstat(base); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s was made", base)
			}
		})
	}
}
