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
		one, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("cannot read record %s: %w", entry.Name(), err)
		}
		h = append(h, one...)
	}
	return h, nil
}

// parse reads one process's record: its life, and its updates. There is nothing yet without a life.
func parse(text []byte) (h history.History, err error) {
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	for line := range bytes.Lines(text) {
		if len(h) == 0 {
			life, err := history.Parse(line)
			if err == nil && life.Kind != history.Life {
				err = fmt.Errorf("%q: not a life", line)
			}
			if err != nil {
				return nil, err
			}
			h = append(h, life)
			continue
		}
		text, told, updates := strings.Cut(strings.TrimSpace(string(line)), " ")
		if text == worked && !h[0].Worked {
			h[0].Worked = true
			continue
		}
		at, err := strconv.ParseInt(text, 10, 64)
		switch {
		case h[0].Worked:
			err = errors.New("it comes after the end")
		case err == nil && at < h[0].Until:
			err = errors.New("time goes backwards")
		}
		if e := (history.Event{Kind: history.Update, Run: h[0].Run, At: h[0].At, Until: at}); err == nil && updates {
			_, err = fmt.Sscan(told, &e.Read, &e.Wrote, &e.Refused)
			if e.Refused {
				e.At = h[len(h)-1].Until // the last update, which was followed by its read
			} else {
				h = h[:1] // this one tells of those before it
			}
			h = append(h, e)
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		h[0].Until = at
	}
	return h, nil
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
