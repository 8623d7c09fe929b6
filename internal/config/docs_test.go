package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mitchellh/go-wordwrap"

	"berth/test/page"
)

//go:generate go test -run TestDocumentationListsTheOptions -args -update

// optionsList returns the list as docs/settings.txt has it.
func optionsList() string {
	var b strings.Builder
	group := ""
	for _, o := range RunOptions() {
		if o.Group != group {
			group = o.Group
			b.WriteString("\n" + group + "\n\n")
		}
		name := o.Key()
		if o.Flag() != "" {
			name = strings.TrimSpace(o.Flag() + " " + o.Value)
		}
		b.WriteString("  " + name + notes(o) + "\n      " +
			strings.ReplaceAll(wordwrap.WrapString(o.Usage, 113), "\n", "\n      ") + "\n")
	}
	return strings.TrimPrefix(b.String(), "\n")
}

// notes are what the list says of an option beside its usage: the mark of those that a reload changes, where it cannot
// be given, and its default.
func notes(o Option) (text string) {
	if slices.Contains(reloadable, o.Name) || slices.Contains(logins, o.Name) {
		text = " ↻"
	}
	switch {
	case o.Flag() == "":
		return text + " (in the file only)"
	case o.Key() == "":
		return text + " (not in the file)"
	case o.Default != "" && o.Kind != Switch:
		return text + fmt.Sprintf(" (%s)", o.Default)
	}
	return text
}

func TestDocumentationListsTheOptions(t *testing.T) {
	page.WantFile(t, "../../docs/settings.txt", optionsList())
}
