// Package overlay builds programs whose source is another one in some places: a Go runtime that does the same each time,
// or a berth that is broken on purpose.
//
//	list, err := overlay.Write(dir, append(overlay.Runtime(goroot), overlay.Change{File: ..., Old: ..., New: ...}))
//	go test -overlay LIST ...
package overlay

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Change replaces a text that a file has once.
type Change struct {
	File     string // an absolute path
	Old, New string
}

// Write writes the changed files into dir, and returns the list of them that the go command takes as -overlay.
func Write(dir string, changes []Change) (list string, err error) {
	texts, replace := map[string]string{}, map[string]string{}
	for i, c := range changes {
		text, known := texts[c.File]
		if !known {
			read, err := os.ReadFile(c.File)
			if err != nil {
				return "", err
			}
			text = string(read)
			replace[c.File] = filepath.Join(dir, fmt.Sprintf("%d.go", i))
		}
		if n := strings.Count(text, c.Old); n != 1 {
			return "", fmt.Errorf("%s has %q %d times, not once; bring the change up to date", c.File, c.Old, n)
		}
		texts[c.File] = strings.Replace(text, c.Old, c.New, 1)
	}
	for file, text := range texts {
		err = errors.Join(err, os.WriteFile(replace[file], []byte(text), 0o600))
	}
	list = filepath.Join(dir, "overlay.json")
	named, wrong := json.Marshal(map[string]map[string]string{"Replace": replace})
	return list, errors.Join(err, wrong, os.WriteFile(list, named, 0o600))
}
