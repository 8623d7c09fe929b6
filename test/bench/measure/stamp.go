package measure

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// stampSource is the command that is run under locks. It writes down when it lives.
//
//go:embed stamp/stamp.c
var stampSource string

// BuildStamp builds the command that is run under locks in dir and returns its path.
func BuildStamp(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "stamp")
	cmd := exec.CommandContext(ctx, "gcc", "-static", "-O2", "-Wall", "-Werror", "-x", "c", "-", "-o", path)
	cmd.Stdin = strings.NewReader(stampSource)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build the command that is run under locks: %w\n%s"+
			"(make deps installs gcc and libc6-dev)", err, out)
	}
	return path, nil
}

// Stamps is what one run of stamp wrote; zero is what it has not written.
type Stamps struct {
	Start, End int64 // see Now
	PID        int
}

// ReadStamps returns what a run has written to a file so far.
func ReadStamps(path string) (s Stamps, err error) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) || err == nil && len(text) == 0 {
		return s, nil // it has not started
	}
	if err != nil {
		return s, fmt.Errorf("cannot read what the command wrote: %w", err)
	}
	start, end, _ := strings.Cut(string(text), "\n")
	_, err = fmt.Sscanf(start, "start %d %d", &s.Start, &s.PID)
	if pid := s.PID; err == nil && end != "" {
		if _, err = fmt.Sscanf(end, "end %d %d\n", &s.End, &pid); err == nil && pid != s.PID {
			err = errors.New("another process wrote its end")
		}
	}
	if err != nil {
		return s, fmt.Errorf("cannot read %q of %s: %w", text, path, err)
	}
	return s, nil
}
