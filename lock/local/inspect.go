package local

import (
	"path/filepath"

	"berth/lock"
)

// Inspect returns why the lock cannot be used in this directory, or nil; of an ID
// without a name, why no lock can. It makes and changes nothing; what is not
// there yet has to be possible to make. Errors: lock.ErrDenied,
// lock.ErrUnreachable.
func (b *Backend) Inspect(id lock.ID) error {
	dir, subject, look := b.dir, "local locks", trustBase
	if id.Name != "" {
		if err := checkID(id); err != nil {
			return err
		}
		dir, subject, look = b.path(id), id.String(), trust
	}
	err := look(dir)
	if err == nil {
		err = mayMakeFiles(dir)
	}
	for above := dir; gone(err); above = filepath.Dir(above) {
		err = mayMakeFiles(above)
		if above == "/" {
			break
		}
	}
	if err != nil {
		return failure("cannot use "+subject, dir, err, lock.ErrUnreachable)
	}
	return nil
}
