package main

import (
	"go/format"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mutantsOf returns what becomes of a line of a function's body.
func mutantsOf(t *testing.T, line string) (changed []string) {
	t.Helper()
	before, after := "package p\n\nfunc f(a, b int, c, d bool) (n int, ok bool) {\n", "\n\treturn\n}\n"
	source := []byte(before + "\t" + line + after)
	p, err := Parse(map[string][]byte{"p.go": source})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range p.Mutants("p.go", func(name string) bool { return name == "f" }) {
		mutated := string(m.Apply(source))
		if _, err := format.Source([]byte(mutated)); err != nil {
			t.Errorf("%v is no Go: %v\n%s", m, err, mutated)
		}
		if m.Line != 4 || m.In != "f" {
			t.Errorf("%v is on line %d of %s", m, m.Line, m.In)
		}
		text, _, _ := strings.Cut(strings.TrimPrefix(mutated, before), after)
		changed = append(changed, strings.TrimSpace(text))
	}
	return changed
}

func TestWhatIsChanged(t *testing.T) {
	for line, want := range map[string][]string{
		"n++":              {""},
		"n = a":            {"_ = 0"},
		"g(a)":             {""},
		"x := a":           {"x := nothingOfMutant(a)"},
		"g(-a)":            {"", "g(a)"},
		"g(a + 1)":         {"", "g(a - 1)", "g(a + (1+1))"},
		"g(true)":          {"", "g(false)"},
		"g(max(a, b))":     {"", "g(min(a, b))"},
		"return a, c":      {"return nothingOfMutant(a), c", "return a, ((c) || true)", "return a, ((c) && false)"},
		"return nil, true": {"return nil, false"},
		"if a < b {}":      {"if ((a < b) || true) {}", "if ((a < b) && false) {}", "if a <= b {}"},
		"if c && d {}": {"if ((c && d) || true) {}", "if ((c && d) && false) {}", "if ((c) || true) && d {}",
			"if c && ((d) || true) {}"},
		"if !(c || d) {}": {"if ((!(c || d)) || true) {}", "if ((!(c || d)) && false) {}", "if !(((c) && false) || d) {}",
			"if !(c || ((d) && false)) {}"},
		"for c {}":                          {"for ((c) && false) {}"},
		"switch { case c: }":                {"switch { case ((c) || true): }", "switch { case ((c) && false): }"},
		"switch a { case b: }":              {"switch a {  }"},
		"switch { default: }":               {"switch {  }"},
		`g([]string{"x", "y"})`:             {"", `g([]string{ "y"})`, `g([]string{"x", })`},
		"g(T{a, nil})":                      {"", "g(T{nothingOfMutant(a), nil})"},
		"g(T{A: a})":                        {"", "g(T{A: nothingOfMutant(a)})"},
		"g([]T{{a, b}})":                    {"", "g([]T{{nothingOfMutant(a), b}})", "g([]T{{a, nothingOfMutant(b)}})"},
		"g(func() int { return a })":        {"", "g(func() int { return nothingOfMutant(a) })"},
		"select { case <-x: case <-y: }":    {"select {  case <-y: }", "select { case <-x:  }"},
		`for range a { if c { continue } }`: {"for range a { if ((c) || true) { continue } }", "for range a { if ((c) && false) { continue } }", "for range a { if c {  } }"},
	} {
		got := mutantsOf(t, line)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s becomes\n\t%s\nnot\n\t%s", line, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
		}
	}
}

// Each row of a table is one by itself, also where a function makes it of an event.
func TestRowsOfATable(t *testing.T) {
	p, err := Parse(map[string][]byte{
		"p.go":    []byte("package p\n\nvar table = append(each(stays, A, B), Row{A, lost, always})\n"),
		"each.go": []byte("package p\n\nvar always Condition\n\nfunc each(to State, events ...Event) []Row { return nil }\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range p.Mutants("p.go", func(string) bool { return true }) {
		got = append(got, m.What)
	}
	for what, want := range map[string]bool{
		"left out: A": true, "left out: B": true, "nothing: A": true, "nothing: lost": true, "nothing: always": false,
	} {
		if slices.Contains(got, what) != want {
			t.Errorf("%q: %v, among %q", what, !want, got)
		}
	}
}

func TestEveryEquivalentIsAMutantAndHasAReason(t *testing.T) {
	r := run{root: root(), only: regexp.MustCompile("")}
	known := map[string]bool{}
	for _, s := range scopes {
		all, err := r.mutants(s)
		if err != nil || len(all) == 0 {
			t.Fatalf("%s: %d mutants, %v", s.pkg, len(all), err)
		}
		for _, m := range all {
			known[m.String()] = true
		}
	}
	for m, reason := range equivalent() {
		if !known[m] || reason == "" {
			t.Errorf("%s: a mutant %v, for the reason %q", m, known[m], reason)
		}
	}
}
