package checker

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Read reads all records in a directory. Those of one run, by slot, term and
// holder, are put together. A file whose process was killed before its first
// line was complete says nothing, nor does an incomplete last line.
func Read(dir string) ([]Run, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read records: %w", err)
	}
	var runs []Run
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("cannot read records: %w", err)
		}
		r, found, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("cannot read record %s: %w", entry.Name(), err)
		}
		if found {
			runs = add(runs, r)
		}
	}
	return runs, nil
}

// add puts a process's record to the run that it belongs to.
func add(runs []Run, r Run) []Run {
	for i := range runs {
		if known := &runs[i]; known.same(r) {
			known.First, known.Last = min(known.First, r.First), max(known.Last, r.Last)
			known.Processes += r.Processes
			return runs
		}
	}
	return append(runs, r)
}

// parse reads one process's record.
func parse(text []byte) (r Run, found bool, err error) {
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
		switch {
		case !found:
			r, err = parseStart(fields)
			found = true
		case len(fields) == 2 && fields[0] == "alive":
			var at int64
			at, err = strconv.ParseInt(fields[1], 10, 64)
			if at < r.Last {
				err = fmt.Errorf("time goes backwards")
			}
			r.Last = at
		default:
			err = fmt.Errorf("unknown line")
		}
		if err != nil {
			return Run{}, false, fmt.Errorf("%q: %w", line, err)
		}
	}
	return r, found, nil
}

func parseStart(fields []string) (Run, error) {
	if len(fields) != 6 || fields[0] != "start" {
		return Run{}, fmt.Errorf("not: start SLOT TERM PID HOLDER NANOSECONDS; a command without slot or term?")
	}
	r := Run{Holder: fields[4], Processes: 1}
	var err error
	if r.Slot, err = strconv.Atoi(fields[1]); err != nil {
		return Run{}, err
	}
	if r.Term, err = strconv.ParseUint(fields[2], 10, 64); err != nil {
		return Run{}, err
	}
	if r.First, err = strconv.ParseInt(fields[5], 10, 64); err != nil {
		return Run{}, err
	}
	r.Last = r.First
	return r, nil
}
