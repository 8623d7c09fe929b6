package witness

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"berth/prover/history"
)

// Read makes a history of all records in a directory. A file whose process was killed before its first line was complete
// tells nothing, nor does an incomplete last line. Life between two signs of it is counted; what comes within a
// millisecond or so after the last one is not seen.
func Read(dir string) (history.History, error) { return (&Records{Dir: dir}).Read() }

// Records reads a directory of records again and again, each time only what was added.
type Records struct {
	Dir string

	known map[string]*record // by name
}

// record is what was read of one process: its life, and its updates. There is nothing yet without a life.
type record struct {
	history.History
	size int64 // of its complete lines
}

// Read does what the function of that name does. Records are written to by appending alone.
func (r *Records) Read() (history.History, error) {
	entries, err := os.ReadDir(r.Dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read records: %w", err)
	}
	if r.known == nil {
		r.known = map[string]*record{}
	}
	var h history.History
	for _, entry := range entries {
		one := r.known[entry.Name()]
		if one == nil {
			one = &record{}
			r.known[entry.Name()] = one
		}
		text, err := one.more(filepath.Join(r.Dir, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("cannot read records: %w", err)
		}
		if err := one.parse(text); err != nil {
			return nil, fmt.Errorf("cannot read record %s: %w", entry.Name(), err)
		}
		h = append(h, one.History...)
	}
	return h, nil
}

// more returns what was added to the file.
func (r *record) more(path string) ([]byte, error) {
	if info, err := os.Stat(path); err != nil || info.Size() == r.size {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.NewSectionReader(file, r.size, math.MaxInt64-r.size))
}

// parse adds what complete lines tell.
func (r *record) parse(text []byte) error {
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	r.size += int64(len(text))
	for line := range bytes.Lines(text) {
		if len(r.History) == 0 {
			life, err := history.Parse(line)
			if err == nil && life.Kind != history.Life {
				err = fmt.Errorf("%q: not a life", line)
			}
			if err != nil {
				return err
			}
			r.History = append(r.History, life)
			continue
		}
		if err := r.sign(strings.TrimSpace(string(line))); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
	}
	return nil
}

// sign adds what a line after the first one tells: a sign of life.
func (r *record) sign(line string) error {
	life := &r.History[0]
	if line == worked && !life.Worked {
		life.Worked = true
		return nil
	}
	text, told, updates := strings.Cut(line, " ")
	at, err := strconv.ParseInt(text, 10, 64)
	switch {
	case life.Worked:
		return errors.New("it comes after the end")
	case err != nil:
		return err
	case at < life.Until:
		return errors.New("time goes backwards")
	}
	if updates {
		e := history.Event{Kind: history.Update, Run: life.Run, At: life.At, Until: at}
		_, err = fmt.Sscan(told, &e.Read, &e.Wrote, &e.Refused)
		if e.Refused {
			e.At = r.History[len(r.History)-1].Until // the last update, which was followed by its read
		} else {
			r.History = r.History[:1] // this one tells of those before it
		}
		r.History = append(r.History, e)
	}
	r.History[0].Until = at
	return err
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
