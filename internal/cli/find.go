package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// findCommand returns the path of the program to execute. A mistake in it is
// found now, and not once the slot is won, perhaps days later. Its errors wrap
// ENOENT or EACCES.
func findCommand(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil, errors.Is(err, exec.ErrDot): // PATH has a relative entry; that is the user's choice
		return path, nil
	case errors.Is(err, fs.ErrPermission), isThere(name):
		return "", fmt.Errorf("cannot execute %q: %w; is it a program, with its x bit set?", name, syscall.EACCES)
	}
	hint := "check its name and PATH"
	if strings.Contains(name, "/") {
		hint = "check the path"
	}
	return "", fmt.Errorf("cannot find the command %q: %w; %s", name, syscall.ENOENT, hint)
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
