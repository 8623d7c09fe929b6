package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// parsedMutants returns the mutants of a file, and the file with all of them.
func parsedMutants(t *testing.T, source string) (all []Mutant, together string) {
	t.Helper()
	p, err := Parse(map[string][]byte{"p.go": []byte(source)})
	if err != nil {
		t.Fatal(err)
	}
	all = p.Mutants("p.go", func(string) bool { return true })
	copies := map[int]Mutant{}
	for i, m := range all {
		if m.of != nil {
			copies[i] = m
		}
	}
	return all, string(Together([]byte(source), copies))
}

func TestManyMutantsAreOneProgram(t *testing.T) {
	_, together := parsedMutants(t, `package p

type t[K comparable] struct{ n int }

func (x *t[K]) method(a, b int) (c int) { return a - b + x.n }

func (x t[K]) nothing(ok bool) { if ok { x.n++ } }

func some[T ~string](least int, all ...T) bool { return len(all) > least }

var rows, none = []int{1, 2}, map[string]struct{ a, b int }{"x": {1, 2}}

func init() { rows[0]++ }
`)
	files := token.NewFileSet()
	var parsed []*ast.File
	for name, text := range map[string]string{
		"p.go": together, "beside.go": "package p\n\nvar triedMutant = 1\n\nfunc " + zero + "[T any](T) (z T) { return }\n",
	} {
		file, err := parser.ParseFile(files, name, text, 0)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		parsed = append(parsed, file)
	}
	if _, err := (&types.Config{}).Check("p", files, parsed, nil); err != nil {
		t.Errorf("%v\n%s", err, together)
	}
	for _, want := range []string{
		"switch triedMutant { case 0: return x.method_mutant0(a, b); ",
		"//line mutant0.go:1\nfunc (x *t[K]) method_mutant0(a, b int) (c int) { return ",
		": x.nothing_mutant", "(ok); return; ",
		"[T](least, all...); ",
		"rows, none = func() []int { switch triedMutant { case ",
	} {
		if !strings.Contains(together, want) {
			t.Errorf("there is no %q in\n%s", want, together)
		}
	}
}

func TestWhatCannotBeCopiedIsBuiltByItself(t *testing.T) {
	all, together := parsedMutants(t, `package p

func init() { println(1) }

func unnamed(int) int { return 1 }

func blank(_ int) int { return 1 }

func (t) method() int { return 1 }

type t int

var a, b = [...]int{1}, 1 + 2

const c = 1

func copied() int { return 1 }
`)
	want := []string{"unnamed", "blank", "t.method", "a", "b", "c", "init"}
	for i, m := range all {
		if m.of != nil == slices.Contains(want, m.In) {
			t.Errorf("%d, %s: %v", i, m, m.of)
		}
	}
	if strings.Count(together, "//line") != 1 {
		t.Error(together)
	}
	trial := &trial{mutants: all}
	if batches := trial.batches(); len(batches) != len(all) {
		t.Errorf("%v", batches)
	}
}

func TestWhatIsBuiltAtOnceIsBounded(t *testing.T) {
	half := &unit{to: maxCopied / 2}
	trial := &trial{mutants: []Mutant{{of: half}, {of: half}, {}, {of: half}}}
	if got := fmt.Sprint(trial.batches()); got != "[[2] [0 1] [3]]" {
		t.Error(got)
	}
}
