package main

import (
	"bytes"
	"fmt"
	"os"
	"time"
)

// line is one of the journal that all consumers write.
type line struct {
	host   string
	pid    int
	what   string // begin, at, done
	number int    // of a message
	at     time.Duration
}

// journal reads what consumers write while they do.
type journal struct {
	file  *os.File
	rest  []byte // of a line that is not whole yet
	lines []line // in the order in which they were written
	done  map[int]bool
	begun map[int]int           // how often each message was begun
	first map[int]time.Duration // when each process began with its first
}

func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600)
	return &journal{file: file, done: map[int]bool{}, begun: map[int]int{}, first: map[int]time.Duration{}}, err
}

// read reads what has been written since.
func (j *journal) read() error {
	data := make([]byte, 1<<20)
	for {
		n, _ := j.file.Read(data)
		if n == 0 {
			return nil
		}
		j.rest = append(j.rest, data[:n]...)
		for {
			text, rest, whole := bytes.Cut(j.rest, []byte("\n"))
			if !whole {
				break
			}
			j.rest = rest
			if err := j.add(string(text)); err != nil {
				return err
			}
		}
	}
}

func (j *journal) add(text string) error {
	var l line
	if _, err := fmt.Sscan(text, &l.host, &l.pid, &l.what, &l.number, (*int64)(&l.at)); err != nil {
		return fmt.Errorf("the journal has the line %q: %w", text, err)
	}
	j.lines = append(j.lines, l)
	if _, known := j.first[l.pid]; !known {
		j.first[l.pid] = l.at
	}
	switch l.what {
	case "begin":
		j.begun[l.number]++
	case "done":
		j.done[l.number] = true
	}
	return nil
}

// last is the last line, which tells who is at work.
func (j *journal) last() (l line) {
	if len(j.lines) > 0 {
		l = j.lines[len(j.lines)-1]
	}
	return l
}
