package slotdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/lock"
)

// OwnDirectory is what to do about a directory that is of no use.
const OwnDirectory = "use a directory of your own: --broker local:///DIRECTORY"

// Make makes the directory and makes sure that lock files can be made in it, and
// that other users cannot replace them.
func (d Dir) Make() error {
	if err := os.MkdirAll(string(d.Base()), 0o755); err != nil {
		return unmade(err)
	}
	if err := d.Base().TrustAsBase(); err != nil {
		return err
	}
	if err := os.Mkdir(string(d), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return unmade(err)
	}
	if err := trustDir(string(d), os.Geteuid()); err != nil {
		return err
	}
	return d.MayMakeFiles()
}

// Base is the directory above, which has those of all locks in it.
func (d Dir) Base() Dir { return Dir(filepath.Dir(string(d))) }

// unmade turns an error of os.Mkdir or os.MkdirAll into a refusal where waiting
// would not help. What has only vanished meanwhile can be made again.
func unmade(err error) error {
	var failed *fs.PathError
	if !errors.As(err, &failed) {
		return err
	}
	if err := inTheWay(failed.Path); err != nil {
		return err
	}
	if Gone(err) && makesNone(failed.Path) {
		return distrust("%s cannot be made, because the file system there makes no directories", failed.Path)
	}
	return err
}

// inTheWay refuses what is at path if it is neither a directory nor a link to
// one.
func inTheWay(path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.IsDir() {
		return nil
	}
	if info, err = os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	return distrust("%s is not a directory", path)
}

// makesNone reports whether path cannot be made although the directory above is
// there, as below /proc, and was not removed in this very moment.
func makesNone(path string) bool {
	above, err := os.Open(filepath.Dir(path))
	if err != nil {
		return false
	}
	defer above.Close()
	if unix.Mkdirat(int(above.Fd()), filepath.Base(path), 0o755) != unix.ENOENT {
		return false
	}
	info, err := above.Stat()
	return err == nil && info.Sys().(*syscall.Stat_t).Nlink > 0 // 0 once it is removed
}

// MayMakeFiles makes sure that files can be made in the directory.
func (d Dir) MayMakeFiles() error {
	dir := string(d)
	if err := inTheWay(dir); err != nil {
		return err
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return &os.PathError{Op: "access", Path: dir, Err: err}
	}
	return nil
}

// Trust refuses a directory that is there if users other than root and this one
// could replace it, or the files in it. The members of its group may: an umask of
// 002 makes every directory writable for them.
func (d Dir) Trust() error {
	if err := d.Base().TrustAsBase(); err != nil {
		return err
	}
	return trustDir(string(d), os.Geteuid())
}

// TrustToLook is Trust for who only looks: the directory may be of any user, who then is whose word counts in it.
func (d Dir) TrustToLook() (owner int, err error) {
	info, err := os.Lstat(string(d))
	if err != nil {
		return 0, err
	}
	owner = ownerOf(info)
	if err := d.Base().trustAsBase(os.Geteuid(), owner); err != nil {
		return 0, err
	}
	return owner, trustDir(string(d), owner)
}

// TrustAsBase is Trust for the directory that has those of all locks in it. It may be a
// link, as /var/run is one, but not one that somebody else can turn.
func (d Dir) TrustAsBase() error { return d.trustAsBase(os.Geteuid()) }

func (d Dir) trustAsBase(owners ...int) error {
	base := string(d)
	for _, look := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} {
		info, err := look(base)
		if err != nil {
			return err
		}
		if err := trustOwner(base, info, owners); err != nil {
			return err
		}
		if info.IsDir() && everybodyWrites(info) && info.Mode()&fs.ModeSticky == 0 {
			return distrust("%s is writable for everybody without being sticky, so any user can replace the locks "+
				"in it", base)
		}
	}
	return nil
}

// trustDir is for the directory of one lock.
func trustDir(dir string, owners ...int) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if err := trustOwner(dir, info, owners); err != nil {
		return err
	}
	switch {
	case !info.IsDir():
		return distrust("%s is not a directory, or is a link to one", dir)
	case everybodyWrites(info):
		return distrust("%s is writable for everybody, so any user can replace the lock files in it", dir)
	}
	return nil
}

func ownerOf(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// trustOwner refuses what is neither root's nor one of the owners'.
func trustOwner(path string, info fs.FileInfo, owners []int) error {
	owner := ownerOf(info)
	if owner == 0 || slices.Contains(owners, owner) {
		return nil
	}
	return distrust("%s belongs to the user %s, who can replace the lock files in it", path, userName(owner))
}

func everybodyWrites(info fs.FileInfo) bool { return info.Mode()&0o002 != 0 }

func distrust(format string, args ...any) error {
	return lock.Errorf(lock.ErrDenied, "%s; %s", fmt.Sprintf(format, args...), OwnDirectory)
}

// userName returns the name of a user, or the number if it has none.
func userName(id int) string {
	if u, err := user.LookupId(strconv.Itoa(id)); err == nil {
		return u.Username
	}
	return strconv.Itoa(id)
}
