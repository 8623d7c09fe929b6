package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// machine is what everything ran on.
type machine struct {
	Processor string  `json:"processor"`
	Cores     int     `json:"cores"`
	Memory    int     `json:"memoryMiB"`
	System    string  `json:"system"`
	Kernel    string  `json:"kernel"`
	Load      float64 `json:"load"` // mean of the minute before the run
}

// String says it in a sentence's worth.
func (m machine) String() string {
	return fmt.Sprintf("%d cores (%s), %d GiB of memory, %s, Linux %s, load %s before it began",
		m.Cores, m.Processor, (m.Memory+512)/1024, m.System, m.Kernel, number(m.Load))
}

func thisMachine() machine {
	m := machine{
		Processor: field("/proc/cpuinfo", "model name", ":"),
		Cores:     runtime.NumCPU(),
		System:    strings.Trim(field("/etc/os-release", "PRETTY_NAME", "="), `"`),
	}
	kib, _, _ := strings.Cut(field("/proc/meminfo", "MemTotal", ":"), " ")
	if n, err := strconv.Atoi(kib); err == nil {
		m.Memory = n / 1024
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		// What comes after two numbers is the distribution's.
		numbers := strings.SplitN(unix.ByteSliceToString(name.Release[:]), ".", 3)
		m.Kernel = strings.Join(numbers[:min(2, len(numbers))], ".")
	}
	loads, _ := os.ReadFile("/proc/loadavg")
	if first, _, found := strings.Cut(string(loads), " "); found {
		m.Load, _ = strconv.ParseFloat(first, 64)
	}
	return m
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
