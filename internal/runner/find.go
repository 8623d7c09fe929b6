package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"berth/internal/brokerurl"
	"berth/internal/guard"
)

// FindCommand returns the path of the program that a command names. A mistake in it is
// found now, and not once the slot is won, perhaps days later. Its errors wrap
// ENOENT or EACCES.
func FindCommand(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot): // PATH has a relative entry; that is the user's choice
		return path, nil
	case brokerurl.BeginsLikeOne(name):
		return "", fmt.Errorf("cannot find the command %q: %w; is --broker missing in front of it?",
			brokerurl.Redact(name), syscall.ENOENT)
	case errors.Is(err, fs.ErrPermission), isThere(name):
		return "", fmt.Errorf("cannot execute %q: %w; is it a program, with its x bit set?", name, syscall.EACCES)
	}
	hint := "check its name and PATH"
	if strings.Contains(name, "/") {
		hint = "check the path"
	}
	return "", fmt.Errorf("cannot find the command %q: %w; %s", name, syscall.ENOENT, hint)
}

// notExecuted says which program it was that FindCommand had found and that
// could not be executed, and what may be the matter.
func notExecuted(spec guard.Spec, err error) error {
	var errno syscall.Errno
	errors.As(err, &errno)
	if _, err := os.Stat(spec.Dir); spec.Dir != "" && err != nil {
		return fmt.Errorf("cannot execute %q in the directory that berth was started in: %w; it was there then",
			spec.Path,
			err)
	}
	program := spec.Path
	if !filepath.IsAbs(program) {
		program = filepath.Join(spec.Dir, program)
	}
	if errno == syscall.EACCES && len(spec.Numbered) > 0 && !mayExecuteSelf(spec.Credential) {
		self, _ := os.Executable()
		return fmt.Errorf("user %d, group %d may not execute berth's own program %q: %w; berth tells the command its "+
			"process number (%s) by it; let them execute it (chmod a+x), or leave --user out and have the command "+
			"become that user", spec.Credential.Uid, spec.Credential.Gid, self, errno,
			strings.Join(spec.Numbered, ", "))
	}
	_, missing := os.Stat(program)
	hint := "see execve(2)"
	switch {
	case errno == syscall.ENOENT && missing != nil:
		hint = "it was there when berth was started"
	case errno == syscall.ENOENT:
		hint = "the file is there, but its #! line or its header names an interpreter that is not"
	case errno == syscall.ENOEXEC:
		hint = "it is neither a program for this machine nor a script that begins with #!"
	case errno == syscall.EACCES && spec.Credential != nil:
		hint = fmt.Sprintf("may user %d, group %d execute it, its interpreter and the directories on the way?",
			spec.Credential.Uid, spec.Credential.Gid)
	case errno == syscall.EACCES:
		hint = "may you execute it and its interpreter, and does its file system allow programs?"
	}
	return fmt.Errorf("cannot execute %q: %w; %s", spec.Path, errno, hint)
}

// isThere reports whether the name leads to a file that cannot be executed:
// exec.LookPath passes those by.
func isThere(name string) bool {
	if strings.Contains(name, "/") {
		_, err := os.Stat(name)
		return err == nil
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && !info.IsDir() {
			return true
		}
	}
	return false
}

// mayExecuteSelf reports whether the user may execute this program by /proc/self/exe, to which no directory is passed.
func mayExecuteSelf(user *syscall.Credential) bool {
	var self syscall.Stat_t
	if user == nil || syscall.Stat("/proc/self/exe", &self) != nil {
		return true
	}
	bits := uint32(0o001)
	switch {
	case user.Uid == 0:
		bits = 0o111
	case user.Uid == self.Uid:
		bits = 0o100
	case user.Gid == self.Gid, slices.Contains(user.Groups, self.Gid):
		bits = 0o010
	}
	return self.Mode&bits != 0
}
