package config

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mitchellh/go-wordwrap"

	"berth/test/page"
)

//go:generate go test -run TestDocumentationListsTheOptions -args -update

// optionsList returns the list as docs/configuration.md has it.
func optionsList() string {
	var b strings.Builder
	for _, o := range RunOptions() {
		name, notes := strings.TrimSpace(o.Flag()+" "+o.Value), ""
		switch {
		case o.Flag() == "":
			name, notes = o.Key(), " (in the file only)"
		case o.Key() == "":
			notes = " (not in the file)"
		case o.Default != "":
			notes = fmt.Sprintf(" (default `%s`)", o.Default)
		}
		item := fmt.Sprintf("- `%s`%s: %s", name, notes, o.Usage)
		b.WriteString(strings.ReplaceAll(wordwrap.WrapString(item, 116), "\n", "\n  ") + "\n")
	}
	return b.String()
}

func TestPageNamesWhatAReloadChanges(t *testing.T) {
	text, err := os.ReadFile("../../docs/status.md")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(text), "\n- These can change: ")
	line, _, _ = strings.Cut(line, ".\n")
	named := regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(line, -1)
	can := slices.Concat(reloadable, logins)
	if len(named) != len(can) {
		t.Errorf("docs/status.md names %d keys, and %d can change", len(named), len(can))
	}
	for _, name := range can {
		if !strings.Contains(line, "`"+strings.ReplaceAll(name, "-", "_")+"`") {
			t.Errorf("docs/status.md does not say that %s can change", name)
		}
	}
}

func TestDocumentationListsTheOptions(t *testing.T) {
	page.Want(t, "../../docs/configuration.md", "options", optionsList())
}
