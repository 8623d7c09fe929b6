package config

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/mitchellh/go-wordwrap"
)

//go:generate go test -run TestDocumentationListsTheOptions -args -update

var update = flag.Bool("update", false, "write the list of options into docs/configuration.md")

const documentation = "../../docs/configuration.md"

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
	page, err := os.ReadFile("../../docs/status.md")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(page), "\n- These can change: ")
	line, _, _ = strings.Cut(line, ".\n")
	named := regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(line, -1)
	if len(named) != len(reloadable) {
		t.Errorf("docs/status.md names %d keys, and %d can change", len(named), len(reloadable))
	}
	for _, name := range reloadable {
		if !strings.Contains(line, "`"+strings.ReplaceAll(name, "-", "_")+"`") {
			t.Errorf("docs/status.md does not say that %s can change", name)
		}
	}
}

func TestDocumentationListsTheOptions(t *testing.T) {
	source, err := os.ReadFile(documentation)
	if err != nil {
		t.Fatal(err)
	}
	marked := regexp.MustCompile(`(?s)(<!-- options: [^\n]* -->\n)(.*)(<!-- end of options -->\n)`)
	found := marked.FindSubmatch(source)
	if found == nil {
		t.Fatalf("%s has no place for the list of options", documentation)
	}
	want := optionsList()
	if string(found[2]) == want {
		return
	}
	if !*update {
		t.Fatalf("the list in %s is out of date; run: go generate ./internal/config", documentation)
	}
	begin, end := found[1], found[3]
	text := strings.Replace(string(source), string(found[0]), string(begin)+want+string(end), 1)
	if err := os.WriteFile(documentation, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
