package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
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

// Read reads lines of JSON up to the end. It passes over empty lines, and refuses whatever else is no event, or
// contradicts a line before it: the verdict would be about something else.
func Read(r io.Reader) (History, error) {
	var h History
	from, before := bufio.NewReader(r), map[string]Event{}
	for number := 1; ; number++ {
		line, err := from.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("cannot read line %d of the history: %w", number, err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			e, wrong := Parse(line)
			if wrong == nil {
				wrong = e.contradicts(before)
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

// fields are those that each kind may have beside the kind itself; true: has to have.
var fields = map[Kind]map[string]bool{
	Lock:   {"slots": true, "lock": false, "faults": false},
	Client: {"client": true, "at": false, "until": false, "status": false},
	Life: {"client": true, "run": true, "until": true, "at": false, "pid": false, "slot": false, "term": false,
		"status": false, "worked": false},
	Fault:    {"fault": true, "until": true, "at": false, "target": false, "failed": false, "allows": false, "lasts": false},
	Update:   {"run": true, "until": true, "wrote": true, "at": false, "read": false, "refused": false},
	Leftover: {"client": true, "pid": true, "at": false},
}

// check returns what the event lacks, or what cannot be.
func (e Event) check() error {
	has, known := fields[e.Kind]
	if !known {
		return fmt.Errorf("the kind is %q; it must be %s, %s, %s, %s, %s or %s", e.Kind, Lock, Client, Life, Fault, Update,
			Leftover)
	}
	a := "a"
	if e.Kind == Update {
		a = "an"
	}
	for field, value := range reflect.ValueOf(e).Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		needed, allowed := has[name]
		switch {
		case name == "kind":
		case needed && value.IsZero():
			return fmt.Errorf("%s %s needs %q", a, e.Kind, name)
		case !allowed && !value.IsZero():
			return fmt.Errorf("%s %s has no %q", a, e.Kind, name)
		}
	}
	switch {
	case e.At < 0 || e.Until != 0 && e.Until < e.At:
		return fmt.Errorf("%s %s from %d until %d", a, e.Kind, e.At, e.Until)
	case min(e.Slots, e.Slot, e.PID) < 0:
		return fmt.Errorf("a %s with a negative number; slots and pids count from 1", e.Kind)
	case e.Kind == Update && e.Wrote <= e.Read:
		return fmt.Errorf("an update that read %d and wrote %d; each write adds one", e.Read, e.Wrote)
	}
	return nil
}

// contradicts returns how the event contradicts those before it: there is one lock, one line for each client, and one
// client, slot, term and status for each run.
func (e Event) contradicts(before map[string]Event) error {
	key := string(e.Kind) + " " + cmp.Or(e.Run, e.Client)
	first, known := before[key]
	// As far as any process of the run was told.
	slot, term, status := cmp.Or(first.Slot, e.Slot), cmp.Or(first.Term, e.Term), cmp.Or(first.Status, e.Status)
	switch {
	case !known:
	case e.Kind == Lock:
		return errors.New("a second lock; a history is about one")
	case e.Kind == Client:
		return fmt.Errorf("a second client %q; give each attempt a name of its own", e.Client)
	case e.Kind == Life && (e.Client != first.Client || cmp.Or(e.Slot, slot) != slot || cmp.Or(e.Term, term) != term ||
		cmp.Or(e.Status, status) != status):
		return fmt.Errorf("run %q has client %q, slot %d, term %d and status %d, and had client %q, slot %d, term %d and "+
			"status %d before; give each command a run of its own", e.Run, e.Client, e.Slot, e.Term, e.Status, first.Client,
			slot, term, status)
	}
	e.Slot, e.Term, e.Status = slot, term, status
	before[key] = e
	return nil
}
