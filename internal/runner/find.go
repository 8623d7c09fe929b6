package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"berth/internal/brokerurl"
	"berth/internal/config"
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

// findFor returns what FindCommand does, such that it also leads there from another
// directory, if the command is to run in one.
func findFor(cfg config.Run, name string) (string, error) {
	path, err := FindCommand(name)
	if err != nil || cfg.WorkingDirectory == "" || filepath.IsAbs(path) {
		return path, err
	}
	here, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("cannot find the command %q from %s: %w", name, cfg.WorkingDirectory, syscall.ENOENT)
	}
	return filepath.Join(here, path), nil
}

// notExecuted says which program it was that FindCommand had found and that
// could not be executed, and what may be the matter.
func notExecuted(spec guard.Spec, err error) error {
	var errno syscall.Errno
	errors.As(err, &errno)
	dir, which := spec.Dir, "the directory that berth was started in"
	if spec.Enter != "" {
		dir, which = spec.Enter, "--directory"
	}
	_, unseen := os.Stat(dir)
	if dir != "" && unseen != nil && !errors.Is(unseen, fs.ErrPermission) {
		return fmt.Errorf("cannot execute %q in %s: %w; it was there then", spec.Path, which, unseen)
	}
	if closed := notEntered(spec.Credential, spec.Enter); errno == syscall.EACCES && spec.Enter != "" && closed != "" {
		return fmt.Errorf("cannot execute %q in --directory: user %d, group %d may not enter %s: %w; let them (chmod a+x), "+
			"or choose another", spec.Path, spec.Credential.Uid, spec.Credential.Gid, closed, errno)
	}
	program := spec.Path
	if !filepath.IsAbs(program) {
		program = filepath.Join(spec.Dir, program)
	}
	// To /proc/self/exe no directory is passed.
	if errno == syscall.EACCES && spec.Staged() && !mayExecute(spec.Credential, "/proc/self/exe") {
		self, _ := os.Executable()
		return fmt.Errorf("user %d, group %d may not execute berth's own program %q: %w; by it berth gives the command "+
			"its process number (LISTEN_PID) or its limits, or takes capabilities from it; let them execute it (chmod a+x), "+
			"or leave --user out and have the command become that user", spec.Credential.Uid, spec.Credential.Gid, self,
			errno)
	}
	_, missing := os.Stat(program)
	hint := "see execve(2)"
	switch {
	case spec.Enter != "" && unseen != nil && spec.Credential != nil:
		hint = fmt.Sprintf("is --directory %s there for user %d, group %d, and may they execute the program?", spec.Enter,
			spec.Credential.Uid, spec.Credential.Gid)
	case errno == syscall.ENOENT && missing != nil:
		hint = "it was there when berth was started"
	case errno == syscall.ENOENT:
		hint = "the file is there, but its #! line or its header names an interpreter that is not"
	case errno == syscall.ENOEXEC:
		hint = "it is neither a program for this machine nor a script that begins with #!"
	case errno == syscall.EPERM:
		hint = "does its file have capabilities (getcap(8)) that berth's bounding set is without, as in a container?"
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
