package measure

import (
	"fmt"
	"os"
	"strconv"
	"strings"
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

// Footprint is memory of processes, in KiB.
type Footprint struct {
	Private int // in no other process
	PSS     int // the same and their share of what others have, too
}

// Add adds up.
func (f Footprint) Add(g Footprint) Footprint { return Footprint{f.Private + g.Private, f.PSS + g.PSS} }

// FootprintOf reads the memory of a process.
func FootprintOf(pid int) (Footprint, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return Footprint{}, err
	}
	return parseRollup(string(text))
}

// parseRollup reads what /proc/PID/smaps_rollup says; see proc_pid_smaps(5).
func parseRollup(text string) (Footprint, error) {
	var f Footprint
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[2] != "kB" {
			continue
		}
		kib, err := strconv.Atoi(fields[1])
		if err != nil {
			return f, fmt.Errorf("cannot read line %q of smaps_rollup: %w", line, err)
		}
		switch fields[0] {
		case "Private_Clean:", "Private_Dirty:":
			f.Private += kib
		case "Pss:":
			f.PSS += kib
		}
	}
	if f.PSS == 0 {
		return f, fmt.Errorf("smaps_rollup has no Pss:\n%s", text)
	}
	return f, nil
}
