package local

import (
	"context"
	"fmt"
	"path/filepath"

	"berth/lock"
)

// Inspect returns why the lock cannot be used in this directory, or nil. It
// makes and changes nothing; what is not there yet has to be possible to make.
// Errors: lock.ErrDenied, lock.ErrUnreachable.
func (b *Backend) Inspect(ctx context.Context, id lock.ID) error {
	if err := checkID(id); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("cannot inspect %s: %w", id, err)
	}
	dir := b.path(id)
	err := trust(dir)
	if err == nil {
		err = mayMakeFiles(dir)
	}
	for above := filepath.Dir(dir); gone(err); above = filepath.Dir(above) {
		err = mayMakeFiles(above)
		if above == "/" {
			break
		}
	}
	if err != nil {
		return failure("cannot use "+id.String(), dir, err, lock.ErrUnreachable)
	}
	return nil
}
