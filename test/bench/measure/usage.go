package measure

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"

	"berth/test/process"
)

// Usage is what a process has taken.
type Usage struct {
	RSS int64         // bytes that it has in memory
	CPU time.Duration // processor time since its start
}

// tick is the unit of processor times in /proc: USER_HZ, 100 on every architecture
// that Go runs on.
const tick = 10 * time.Millisecond

// UsageOf reads what a process has taken.
func UsageOf(pid int) (Usage, error) {
	path := fmt.Sprintf("/proc/%d/stat", pid)
	fields, err := process.Stat(path)
	if err != nil {
		return Usage{}, fmt.Errorf("cannot read what process %d uses: %w", pid, err)
	}
	var numbers [3]int64
	for i, field := range []int{14, 15, 24} { // utime, stime, rss; the first here is the third there
		if numbers[i], err = strconv.ParseInt(fields[field-3], 10, 64); err != nil {
			return Usage{}, fmt.Errorf("%s: %w", path, err)
		}
	}
	return Usage{
		RSS: numbers[2] * int64(os.Getpagesize()),
		CPU: time.Duration(numbers[0]+numbers[1]) * tick,
	}, nil
}

// Private returns the memory of a process that it shares with no other, in KiB.
func Private(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	return parseRollup(string(text))
}

// parseRollup reads what /proc/PID/smaps_rollup says; see proc_pid_smaps(5).
func parseRollup(text string) (sum int, err error) {
	found := privateMemory.FindAllStringSubmatch(text, -1)
	if len(found) == 0 {
		return 0, fmt.Errorf("smaps_rollup has no Private_Clean or Private_Dirty:\n%s", text)
	}
	for _, line := range found {
		kib, err := strconv.Atoi(line[1])
		if err != nil {
			return 0, err
		}
		sum += kib
	}
	return sum, nil
}

var privateMemory = regexp.MustCompile(`(?m)^Private_(?:Clean|Dirty): +(\d+) kB$`)
