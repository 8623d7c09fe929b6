package witness

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"berth/prover/history"
)

// Read makes a history of all records in a directory. A file whose process was killed before its first line was complete
// tells nothing, nor does an incomplete last line. Life between two signs of it is counted; what comes within a
// millisecond or so after the last one is not seen.
func Read(dir string) (history.History, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read records: %w", err)
	}
	var h history.History
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("cannot read records: %w", err)
		}
		life, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("cannot read record %s: %w", entry.Name(), err)
		}
		if life.Kind != "" {
			h = append(h, life)
		}
	}
	return h, nil
}

// parse reads one process's record, without a kind if there is none yet.
func parse(text []byte) (life history.Event, err error) {
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	for line := range bytes.Lines(text) {
		if life.Kind == "" {
			if life, err = history.Parse(line); err != nil {
				return life, err
			}
			if life.Kind != history.Life {
				return life, fmt.Errorf("%q: not a life", line)
			}
			continue
		}
		text := strings.TrimSpace(string(line))
		if text == worked && !life.Worked {
			life.Worked = true
			continue
		}
		at, err := strconv.ParseInt(text, 10, 64)
		switch {
		case life.Worked:
			err = errors.New("it comes after the end")
		case err == nil && at < life.Until:
			err = errors.New("time goes backwards")
		}
		if err != nil {
			return life, fmt.Errorf("%q: %w", line, err)
		}
		life.Until = at
	}
	return life, nil
}

// Began returns how many commands have begun after the moment, by what their files are called: links of chains have
// another name.
func Began(dir string, after int64) int {
	entries, _ := os.ReadDir(dir)
	n := 0
	for _, entry := range entries {
		_, began, _ := strings.Cut(entry.Name(), "-")
		if at, err := strconv.ParseInt(began, 10, 64); err == nil && at > after {
			n++
		}
	}
	return n
}
