package measure

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Machine describes the machine: cores, system, kernel.
func Machine() string {
	kernel := "unknown"
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		// What comes after two numbers is the distribution's.
		numbers := strings.SplitN(unix.ByteSliceToString(name.Release[:]), ".", 3)
		kernel = strings.Join(numbers[:min(2, len(numbers))], ".")
	}
	return fmt.Sprintf("%d cores (%s), %s, Linux %s", runtime.NumCPU(), field("/proc/cpuinfo", "model name", ":"),
		strings.Trim(field("/etc/os-release", "PRETTY_NAME", "="), `"`), kernel)
}

// field returns what stands behind a name in a file of names and values, "unknown"
// if it is not there.
func field(path, name, separator string) string {
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		key, value, found := strings.Cut(line, separator)
		if found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// Commit names the tree's, with -dirty behind it if something else was built, maybe.
func Commit(ctx context.Context) string {
	name, err := exec.CommandContext(ctx, "git", "describe", "--always", "--abbrev=12").Output()
	if err != nil {
		return "unknown" // not in a repository, or without git
	}
	// Pages do not count: measurements write them.
	status := exec.CommandContext(ctx, "git", "status", "--porcelain", "--untracked-files=no", "--", ":/", ":!/docs")
	changes, err := status.Output()
	dirty := ""
	if err != nil || len(changes) > 0 {
		dirty = "-dirty"
	}
	return strings.TrimSpace(string(name)) + dirty
}

// Load is the machine's load average of the last minute.
func Load() (float64, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), " ")
	return strconv.ParseFloat(first, 64)
}

// Ticks is processor time of all cores since boot, in units of 10 ms.
type Ticks struct {
	All    int64
	Used   int64 // by processes, the kernel and the hypervisor
	Stolen int64 // by the hypervisor
}

// ReadTicks reads /proc/stat; see proc_stat(5).
func ReadTicks() (Ticks, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Ticks{}, err
	}
	return parseTicks(string(text))
}

func parseTicks(stat string) (Ticks, error) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	const idle, iowait, steal, columns = 3, 4, 7, 8 // guests are in user and nice already
	if len(fields) <= columns || fields[0] != "cpu" {
		return Ticks{}, fmt.Errorf("/proc/stat begins with %q; processor time cannot be read", line)
	}
	var t Ticks
	for i, text := range fields[1 : 1+columns] {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return Ticks{}, fmt.Errorf("/proc/stat: %w", err)
		}
		t.All += n
		if i != idle && i != iowait {
			t.Used += n
		}
		if i == steal {
			t.Stolen = n
		}
	}
	return t, nil
}

// Since returns the shares of processor time since before that were in use, and
// that the hypervisor took, both 0 to 1.
func (t Ticks) Since(before Ticks) (used, stolen float64) {
	all := float64(max(1, t.All-before.All))
	return float64(t.Used-before.Used) / all, float64(t.Stolen-before.Stolen) / all
}

const (
	maxUsed = 0.05            // share of processor time that a quiet machine may use
	lookFor = 3 * time.Second // how long the share is looked at
)

// BusyError says that the machine is not quiet.
type BusyError struct{ Used, Load float64 }

func (e *BusyError) Error() string {
	return fmt.Sprintf("the machine is busy: %.0f %% of its processor time is in use, and %.0f %% may be (load %.2f)",
		100*e.Used, 100*maxUsed, e.Load)
}

// AwaitQuiet waits until next to nothing runs on the machine, for no longer than
// patience and at least for 3 s, and returns the share of processor time that is in
// use, 0 to 1. The error is a BusyError if it is too much in the end.
func AwaitQuiet(ctx context.Context, patience time.Duration) (float64, error) {
	return awaitQuiet(patience, func() (float64, error) { return look(ctx) })
}

func awaitQuiet(patience time.Duration, look func() (float64, error)) (float64, error) {
	for end := time.Now().Add(patience); ; {
		used, err := look()
		if err != nil || used <= maxUsed {
			return used, err
		}
		if !time.Now().Before(end) {
			load, err := Load()
			if err == nil {
				err = &BusyError{used, load}
			}
			return used, err
		}
	}
}

// look returns the share of processor time that is in use.
func look(ctx context.Context) (float64, error) {
	before, err := ReadTicks()
	if err != nil {
		return 0, err
	}
	if err := Sleep(ctx, lookFor); err != nil {
		return 0, err
	}
	after, err := ReadTicks()
	used, _ := after.Since(before)
	return used, err
}
