package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"berth/internal/config"
	"berth/internal/guard/rights"
)

// CheckRights returns why this host cannot give the command its directory or its limits.
// A directory that only the command's user may look at is found when that user enters it.
// It raises the hard limits of this process, which guards inherit: the command's own user
// may not.
func CheckRights(cfg config.Run) error {
	if err := rights.Raise(cfg.Rights.Limits); err != nil {
		return fmt.Errorf("--limit %w", err)
	}
	if cfg.WorkingDirectory == "" {
		return nil
	}
	switch info, err := os.Stat(cfg.WorkingDirectory); {
	case cfg.Credential != nil && errors.Is(err, fs.ErrPermission):
		return nil
	case err != nil:
		var failed *fs.PathError
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return fmt.Errorf("--directory %s: %w; give one that is there", cfg.WorkingDirectory, err)
	case !info.IsDir():
		return fmt.Errorf("--directory %s: it is a file; give a directory", cfg.WorkingDirectory)
	}
	return nil
}

// mayExecute reports whether the user may execute the file, or enter the directory, as far
// as its mode says.
func mayExecute(user *syscall.Credential, path string) bool {
	var file syscall.Stat_t
	if user == nil || syscall.Stat(path, &file) != nil {
		return true
	}
	bits := uint32(0o001)
	switch {
	case user.Uid == 0:
		bits = 0o111
	case user.Uid == file.Uid:
		bits = 0o100
	case user.Gid == file.Gid, slices.Contains(user.Groups, file.Gid):
		bits = 0o010
	}
	return file.Mode&bits != 0
}

// notEntered returns the directory on the way to this one, and itself, that the user may
// not enter; "" if there is none.
func notEntered(user *syscall.Credential, dir string) string {
	if parent := filepath.Dir(dir); parent != dir {
		if found := notEntered(user, parent); found != "" {
			return found
		}
	}
	if mayExecute(user, dir) {
		return ""
	}
	return dir
}
