package repository

import (
	"regexp"
	"strings"
	"testing"
)

// The table of rules stands between page, model and code, and is right about all three.
func TestTableOfRulesNamesWhatExists(t *testing.T) {
	protocol, configurations := read(t, "docs/protocol.md"), read(t, "docs/model/configurations")
	var variants []string
	for _, line := range strings.Split(strings.TrimSpace(read(t, "docs/model/rules.tsv")), "\n")[1:] {
		cells := strings.Split(line, "\t")
		if len(cells) != 6 {
			t.Fatalf("docs/model/rules.tsv has %d cells, not 6, in: %s", len(cells), line)
		}
		rule := cells[0]
		for _, number := range strings.Fields(cells[2]) {
			if !strings.Contains(protocol, "\n"+number+" ") {
				t.Errorf("rule %s: docs/protocol.md has no %s", rule, number)
			}
		}
		for _, variant := range strings.Fields(cells[4]) {
			variants = append(variants, "WITHOUT_"+variant)
			if !regexp.MustCompile(`WITHOUT_` + variant + `\b`).MatchString(configurations) {
				t.Errorf("rule %s: docs/model/configurations has no variant WITHOUT_%s", rule, variant)
			}
		}
		for _, code := range strings.Fields(cells[5]) {
			file, name, _ := strings.Cut(code, ":")
			if !regexp.MustCompile(`\b` + name + `\b`).MatchString(read(t, file)) {
				t.Errorf("rule %s: %s does not have %s", rule, file, name)
			}
		}
	}
	all := strings.Join(variants, " ") + " "
	for _, variant := range regexp.MustCompile(`WITHOUT_\w+`).FindAllString(configurations, -1) {
		if !strings.Contains(all, variant+" ") {
			t.Errorf("docs/model/rules.tsv has no rule for %s", variant)
		}
	}
}
