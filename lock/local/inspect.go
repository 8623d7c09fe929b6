package local

import (
	"berth/lock"
	"berth/lock/local/slotdir"
)

// Inspect returns why the lock cannot be used in this directory, or nil; of an ID
// without a name, why no lock can. It makes and changes nothing; what is not
// there yet has to be possible to make. Errors: lock.ErrDenied, lock.ErrUnsafe,
// lock.ErrUnreachable.
func (b *Backend) Inspect(id lock.ID) error {
	dir, subject, look := slotdir.Dir(b.dir), "local locks", slotdir.Dir.TrustAsBase
	if id.Name != "" {
		if err := checkID(id); err != nil {
			return err
		}
		dir, subject, look = b.path(id), id.String(), slotdir.Dir.Trust
	}
	err := look(dir)
	if err == nil {
		err = dir.MayMakeFiles()
	}
	if err == nil && id.Name != "" {
		err = dir.MayUseFiles(id.Kind)
	}
	if err == nil && id.Kind.Administered() {
		_, err = dir.Slots()
	}
	for above := dir; slotdir.Gone(err); above = above.Base() {
		err = above.MayMakeFiles()
		if above == "/" {
			break
		}
	}
	if err != nil {
		return failure("cannot use "+subject, dir, err, lock.ErrUnreachable)
	}
	return nil
}
