package measure

import (
	"context"
	_ "embed"
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

// ReadStamps returns all runs that wrote to a file one after another.
func ReadStamps(path string) ([]Stamps, error) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil // it has not started
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read what the command wrote: %w", err)
	}
	var all []Stamps
	for line := range strings.Lines(string(text)) {
		var what string
		var at int64
		var pid int
		if _, err := fmt.Sscanf(line, "%s %d %d\n", &what, &at, &pid); err != nil {
			return nil, fmt.Errorf("cannot read line %q of %s: %w", line, path, err)
		}
		switch {
		case what == "start":
			all = append(all, Stamps{Start: at, PID: pid})
		case what == "end" && len(all) > 0 && all[len(all)-1].PID == pid:
			all[len(all)-1].End = at
		default:
			return nil, fmt.Errorf("unexpected line %q in %s", line, path)
		}
	}
	return all, nil
}
