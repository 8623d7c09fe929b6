package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// usage is what a process has taken.
type usage struct {
	rss int64         // bytes that it has in memory
	cpu time.Duration // processor time since its start
}

// clockTick is the unit of processor times in /proc: USER_HZ, 100 on every
// architecture that Go runs on.
const clockTick = 10 * time.Millisecond

// usageOf reads /proc/PID/stat; see proc_pid_stat(5).
func usageOf(pid int) (usage, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, fmt.Errorf("cannot read what process %d uses: %w", pid, err)
	}
	// The name, in parentheses, may contain anything. After it come the fields
	// from the third on: 14 and 15 are times, 24 is pages.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var numbers [3]int64
	for i, field := range []int{14, 15, 24} {
		if len(fields) <= field-3 {
			return usage{}, fmt.Errorf("/proc/%d/stat has only %d fields", pid, len(fields)+2)
		}
		if numbers[i], err = strconv.ParseInt(fields[field-3], 10, 64); err != nil {
			return usage{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
	}
	return usage{
		rss: numbers[2] * int64(os.Getpagesize()),
		cpu: time.Duration(numbers[0]+numbers[1]) * clockTick,
	}, nil
}

// snapshot is what both sides have taken at one moment.
type snapshot struct {
	when     time.Time
	here     usage
	heap     int64 // of here: live objects
	stacks   int64 // of here: of goroutines
	routines int
	broker   usage // zero if its process is not known
}

// snap looks at both sides. Before that it has this process give back what it
// does not need.
func (s *site) snap() (snapshot, error) {
	debug.FreeOSMemory() // collects garbage, too
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	shot := snapshot{
		when: time.Now(), heap: int64(m.HeapAlloc), stacks: int64(m.StackInuse), routines: runtime.NumGoroutine(),
	}
	var err error
	if shot.here, err = usageOf(os.Getpid()); err != nil || s.pid == 0 {
		return shot, err
	}
	shot.broker, err = usageOf(s.pid)
	return shot, err
}

// addMemory reports what each of n has added to both sides.
func (b *bench) addMemory(what string, n int, before, after snapshot) {
	per := func(x, y int64) float64 { return float64(y-x) / float64(n) / 1024 }
	b.add("memory here per "+what, per(before.here.rss, after.here.rss), "KiB RSS")
	b.add("  of it live objects", per(before.heap, after.heap), "KiB")
	b.add("  of it stacks", per(before.stacks, after.stacks), "KiB")
	b.add("goroutines per "+what, float64(after.routines-before.routines)/float64(n), "")
	if b.pid != 0 {
		b.add("memory in the broker per "+what, per(before.broker.rss, after.broker.rss), "KiB RSS")
		b.add("memory of the broker before", float64(before.broker.rss)/(1<<20), "MiB RSS")
		b.add("memory of the broker after", float64(after.broker.rss)/(1<<20), "MiB RSS")
	}
}

// addTime reports the processor time of both sides between two snapshots, as a
// share of one processor and for each of n.
func (b *bench) addTime(what string, n int, before, after snapshot) {
	window := after.when.Sub(before.when)
	one := func(side string, spent time.Duration) {
		b.add("processor, "+side, 100*spent.Seconds()/window.Seconds(), "%")
		b.add("processor, "+side+", per "+what, spent.Seconds()*1e6/float64(n)/window.Seconds(), "us/s")
	}
	one("here", after.here.cpu-before.here.cpu)
	if b.pid != 0 {
		one("broker", after.broker.cpu-before.broker.cpu)
	}
}
