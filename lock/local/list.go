package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"berth/lock"
	"berth/lock/local/slotdir"
)

// Locks returns the locks in the directory, in the order of their names: those that have slots, and every
// mutex that was ever held. It makes and changes nothing. A persistent mutex is said to be a semaphore of one
// slot, which it is. A lock whose name is too long for that of a directory is left out. Errors:
// lock.ErrAbsent if there is no directory, lock.ErrDenied, lock.ErrUnknown.
func (b *Backend) Locks(ctx context.Context) ([]lock.ID, error) {
	entries, err := os.ReadDir(b.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, lock.Errorf(lock.ErrAbsent, "the directory %s does not exist; the first lock makes it, or name another: "+
			"--broker local:///DIRECTORY", b.dir)
	}
	if err != nil {
		return nil, failure("cannot list the locks", slotdir.Dir(b.dir), err, lock.ErrUnknown)
	}
	var all []lock.ID
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("cannot list the locks in %s: %w", b.dir, err)
		}
		name, ok := slotdir.LockName(e.Name())
		if !ok || !e.IsDir() || lock.CheckName(name) != nil {
			continue
		}
		dir := slotdir.Dir(filepath.Join(b.dir, e.Name()))
		switch {
		case there(dir.SlotPath(1)):
			all = append(all, lock.ID{Kind: lock.Semaphore, Name: name})
		case there(dir.LockPath(1)) && !there(dir.AdminPath()):
			all = append(all, lock.ID{Kind: lock.Mutex, Name: name})
		}
	}
	return all, nil
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
