package local

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"berth/lock"
)

// Inspect returns why the lock cannot be used in this directory, or nil; of an ID
// without a name, why no lock can. It makes and changes nothing; what is not
// there yet has to be possible to make. Errors: lock.ErrDenied, lock.ErrUnsafe,
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
	if err == nil && id.Name != "" {
		err = mayUseFiles(dir, id.Kind)
	}
	if err == nil && id.Kind.Administered() {
		_, err = countSlots(dir)
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

// mayUseFiles makes sure that the files that a contender or an administrator
// flocks can be opened, if they are there. It opens none of them for writing:
// the close of that would wake all who wait.
func mayUseFiles(dir string, kind lock.Kind) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, term := slotNumber(e.Name(), termSuffix); term && e.IsDir() {
			return strange(filepath.Join(dir, e.Name()), e.Type())
		}
		if !flocked(e.Name(), kind) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		f, err := openFile(path, os.O_RDONLY, 0)
		if err == nil {
			_ = f.Close()
			if err = unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS); err != nil {
				err = &os.PathError{Op: "access", Path: path, Err: err}
			}
		}
		if err != nil && !gone(err) {
			return err
		}
	}
	return nil
}

// flocked reports whether a file of this name is flocked for a lock of that kind.
func flocked(name string, kind lock.Kind) bool {
	if name == adminFile {
		return kind.Administered()
	}
	slot, ok := slotNumber(name, lockSuffix)
	return ok && (slot == 1 || kind == lock.Semaphore)
}
