package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// What stands between these in a page is written anew by every run.
const (
	beginMarker = "<!-- bench:begin -->"
	endMarker   = "<!-- bench:end -->"
)

// write writes the files that were asked for.
func (r *report) write(o options) error {
	if o.json != "" {
		text, err := json.MarshalIndent(r, "", "\t")
		if err != nil {
			return fmt.Errorf("cannot write the samples as JSON: %w", err)
		}
		if err := os.WriteFile(o.json, append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	if o.svg != "" {
		if err := os.WriteFile(o.svg, []byte(r.plot()), 0o644); err != nil {
			return err
		}
	}
	if o.markdown == "" {
		return nil
	}
	plot := ""
	if o.svg != "" {
		var err error
		if plot, err = filepath.Rel(filepath.Dir(o.markdown), o.svg); err != nil {
			return fmt.Errorf("cannot link %s from %s: %w", o.svg, o.markdown, err)
		}
	}
	page, err := os.ReadFile(o.markdown)
	if os.IsNotExist(err) {
		page, err = []byte(beginMarker+"\n"+endMarker+"\n"), nil
	}
	if err != nil {
		return err
	}
	text, err := rewrite(string(page), r.markdown(plot))
	if err != nil {
		return fmt.Errorf("cannot write the table into %s: %w", o.markdown, err)
	}
	return os.WriteFile(o.markdown, []byte(text), 0o644)
}

// rewrite puts the generated part between the markers of a page.
func rewrite(page, generated string) (string, error) {
	if strings.Count(page, beginMarker) != 1 || strings.Count(page, endMarker) != 1 {
		return "", fmt.Errorf("it does not have one line %s and one line %s", beginMarker, endMarker)
	}
	before, rest, _ := strings.Cut(page, beginMarker)
	_, after, found := strings.Cut(rest, endMarker)
	if !found {
		return "", fmt.Errorf("it has %s before %s", endMarker, beginMarker)
	}
	return before + beginMarker + "\n" + strings.TrimSpace(generated) + "\n" + endMarker + after, nil
}

// given returns the flags that say how much is measured, and leaves out those
// that say where what is.
func given(args []string) []string {
	var kept []string
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		switch name {
		case "berth", "markdown", "svg", "json":
			if !joined {
				i++
			}
		default:
			kept = append(kept, args[i])
		}
	}
	return kept
}
