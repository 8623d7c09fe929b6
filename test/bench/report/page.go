package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// WriteJSON writes everything, with all samples, to a file.
func (r *Report) WriteJSON(file string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return fmt.Errorf("cannot write the samples as JSON: %w", err)
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// WriteSection writes a section's table between its markers in a page of plain text,
// and its plot, if it has one, to a file beside it that has the section's name. Both
// are there afterwards, or neither has changed.
func (r *Report) WriteSection(section, page string) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	plot := ""
	picture := r.plot(section)
	if picture != "" {
		plot = strings.TrimSuffix(filepath.Base(page), filepath.Ext(page)) + "-" + section + ".svg"
	}
	text, err := rewrite(string(old), section, r.text(section, plot))
	if err != nil {
		return fmt.Errorf("cannot write the table into %s: %w", page, err)
	}
	if picture != "" {
		if err := os.WriteFile(filepath.Join(filepath.Dir(page), plot), []byte(picture), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(page, []byte(text), 0o644)
}

// WriteText writes a text between the markers of a section of a page, which is as it was where that fails.
func WriteText(section, page, text string) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	now, err := rewrite(string(old), section, text)
	if err != nil {
		return fmt.Errorf("cannot write the table into %s: %w", page, err)
	}
	return os.WriteFile(page, []byte(now), 0o644)
}

// rewrite puts the generated part between the markers of a section of a page.
func rewrite(page, section, generated string) (string, error) {
	begin, end := marker("begin", section), marker("end", section)
	if strings.Count(page, begin) != 1 || strings.Count(page, end) != 1 {
		return "", fmt.Errorf("it does not have one line %s and one line %s", begin, end)
	}
	before, rest, _ := strings.Cut(page, begin)
	_, after, found := strings.Cut(rest, end)
	if !found {
		return "", fmt.Errorf("it has %s before %s", end, begin)
	}
	return before + begin + "\n" + strings.TrimSpace(generated) + "\n" + end + after, nil
}

// marker is the line at an end of what every run writes again.
func marker(which, section string) string { return "<!-- bench:" + which + " " + section + " -->" }
