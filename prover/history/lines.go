package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Write writes a history as lines of JSON.
func Write(w io.Writer, h History) error {
	to := bufio.NewWriter(w)
	lines := json.NewEncoder(to)
	for _, e := range h {
		if err := lines.Encode(e); err != nil {
			return fmt.Errorf("cannot write the history: %w", err)
		}
	}
	if err := to.Flush(); err != nil {
		return fmt.Errorf("cannot write the history: %w", err)
	}
	return nil
}

// Read reads lines of JSON up to the end. It passes over empty lines, and refuses whatever else is no event: what is
// misspelt would be left out, and the verdict would not be about it.
func Read(r io.Reader) (History, error) {
	var h History
	from := bufio.NewReader(r)
	locks := 0
	for number := 1; ; number++ {
		line, err := from.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("cannot read line %d of the history: %w", number, err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			e, wrong := Parse(line)
			if e.Kind == Lock {
				locks++
			}
			if wrong == nil && locks > 1 {
				wrong = errors.New("a second lock; a history is about one")
			}
			if wrong != nil {
				return nil, fmt.Errorf("line %d of the history: %w", number, wrong)
			}
			h = append(h, e)
		}
		if err == io.EOF {
			return h, nil
		}
	}
}

// Parse reads one line.
func Parse(line []byte) (e Event, err error) {
	object := json.NewDecoder(bytes.NewReader(line))
	object.DisallowUnknownFields()
	if err := object.Decode(&e); err != nil {
		return Event{}, fmt.Errorf("not an event in JSON: %w", err)
	}
	if _, err := object.Token(); err != io.EOF {
		return Event{}, errors.New("more than one event in JSON")
	}
	return e, e.check()
}

// check returns what the event lacks, or what cannot be.
func (e Event) check() error {
	if !slices.Contains([]Kind{Lock, Client, Life, Fault, Leftover}, e.Kind) {
		return fmt.Errorf("the kind is %q; it must be %s, %s, %s, %s or %s", e.Kind, Lock, Client, Life, Fault, Leftover)
	}
	for _, needs := range []struct {
		kind  Kind
		field string
		given bool
	}{
		{Lock, "slots", e.Slots > 0},
		{Client, "client", e.Client != ""},
		{Life, "client", e.Client != ""},
		{Life, "run", e.Run != ""},
		{Life, "until", e.Until != 0},
		{Fault, "fault", e.Fault != ""},
		{Leftover, "client", e.Client != ""},
		{Leftover, "pid", e.PID > 0},
	} {
		if needs.kind == e.Kind && !needs.given {
			return fmt.Errorf("a %s needs %q", e.Kind, needs.field)
		}
	}
	open := e.Until == 0 && e.Kind != Life && e.Kind != Fault
	switch {
	case e.At < 0 || e.Until < e.At && !open:
		return fmt.Errorf("a %s from %d until %d", e.Kind, e.At, e.Until)
	case e.Slot < 0:
		return fmt.Errorf("slot %d; slots count from 1", e.Slot)
	}
	return nil
}
