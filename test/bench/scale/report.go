package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// report is the outcome of a run, as -json writes it.
type report struct {
	Began   time.Time `json:"began"`
	Broker  string    `json:"broker,omitempty"` // version, of a private one
	Sizes   sizes     `json:"sizes"`
	Figures []figure  `json:"figures"`
}

// figure is one number that was measured.
type figure struct {
	Scenario string  `json:"scenario"`
	Name     string  `json:"name"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"`
}

// print writes the figures as a table.
func (r *report) print(w io.Writer) error {
	wide := 0
	for _, f := range r.Figures {
		wide = max(wide, len(f.Name))
	}
	last := ""
	for _, f := range r.Figures {
		if f.Scenario != last {
			last = f.Scenario
			if _, err := fmt.Fprintf(w, "%s\n", last); err != nil {
				return err
			}
		}
		line := fmt.Sprintf("  %-*s %10s %s", wide, f.Name, short(f.Value), f.Unit)
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}

// short writes a number with as many digits as are worth reading.
func short(v float64) string {
	switch {
	case v >= 100 || v <= -100 || v == float64(int64(v)):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10 || v <= -10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
}

// save writes the report to a file, if one is named.
func (r *report) save(file string) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(file, append(text, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("cannot write the figures to %s: %w", file, err)
	}
	return nil
}
