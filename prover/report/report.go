// Package report writes down what a run of the prover has found: as text for a terminal, as JSON for programs, and as
// one page of HTML that needs nothing from outside, with the history as lanes of bars.
//
//	report.Text(os.Stdout, r)
//	report.Write("out.html", r)
//
// It judges nothing: what is red on the page is what a checker has blamed.
package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"berth/prover/history"
	"berth/prover/judge"
)

// Report is what a run of the prover has found, and what it was found in.
type Report struct {
	Command  string          `json:"command"`        // the command line that finds it again
	Seed     uint64          `json:"seed"`           // of the faults, if there is a time at which it began
	Began    time.Time       `json:"began,omitzero"` // zero: the history is from elsewhere
	Verdicts []judge.Verdict `json:"verdicts"`
	Windows  judge.Windows   `json:"windows,omitempty"`
	History  history.History `json:"history"`

	Flags map[string][]string `json:"flags,omitempty"` // of the run, with defaults
}

// Writable returns an error if a report cannot be written to that path, for its name: to be asked before a long run.
func Writable(path string) error {
	_, err := form(path)
	return err
}

// Write writes a report to a file, by the end of its name as JSON or HTML. The file is there when all of it is.
func Write(path string, r Report) error {
	write, err := form(path)
	if err != nil {
		return err
	}
	r.Command, r.Flags = withoutPasswords(r.Command), maps.Clone(r.Flags)
	for name, values := range r.Flags {
		r.Flags[name] = nil
		for _, value := range values {
			r.Flags[name] = append(r.Flags[name], withoutPasswords(value))
		}
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("cannot write the report: %w", err)
	}
	defer os.Remove(file.Name()) // which is gone once it has its final name
	buffer := bufio.NewWriter(file)
	err = write(buffer, r)
	if err := errors.Join(err, buffer.Flush(), file.Chmod(0o644), file.Close()); err != nil {
		return fmt.Errorf("cannot write the report %s: %w", path, err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("cannot write the report: %w", err)
	}
	return nil
}

// form returns what writes a report of that name.
func form(path string) (func(io.Writer, Report) error, error) {
	switch filepath.Ext(path) {
	case ".json":
		return func(w io.Writer, r Report) error { return json.NewEncoder(w).Encode(r) }, nil
	case ".html":
		return writePage, nil
	}
	return nil, fmt.Errorf("cannot write a report to %s: name a file that ends in .json or .html", path)
}

// password is the end of a URL's user and its password, up to the host.
var password = regexp.MustCompile(`(://[^\s:/@]*):[^\s/]+@`)

// Hidden is in place of a password.
const Hidden = ":xxxxx@"

// withoutPasswords has a command line without the passwords in its URLs: reports are passed on.
func withoutPasswords(command string) string { return password.ReplaceAllString(command, "$1"+Hidden) }
