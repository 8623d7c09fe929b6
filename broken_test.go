package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// The suite of faults breaks berth on purpose, by replacing text of its source: an
// hour too late to learn that the text is no longer there.
func TestSourceHasTheTextThatFaultsReplace(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "test/faults/broken_test.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(file, func(node ast.Node) bool {
		fields := stringFields(node)
		if fields["file"] == "" || fields["old"] == "" {
			return true
		}
		found++
		text, err := os.ReadFile(fields["file"])
		if n := strings.Count(string(text), fields["old"]); err != nil || n != 1 {
			t.Errorf("%s has %q %d times, not once; bring test/faults/broken_test.go up to date (%v)", fields["file"],
				fields["old"], n, err)
		}
		return true
	})
	if found == 0 {
		t.Error("no berth that was broken on purpose is found in test/faults/broken_test.go")
	}
}

// stringFields returns the fields of a struct literal that are string literals.
func stringFields(node ast.Node) map[string]string {
	fields := map[string]string{}
	literal, _ := node.(*ast.CompositeLit)
	if literal == nil {
		return fields
	}
	for _, element := range literal.Elts {
		pair, _ := element.(*ast.KeyValueExpr)
		if pair == nil {
			continue
		}
		name, _ := pair.Key.(*ast.Ident)
		value, _ := pair.Value.(*ast.BasicLit)
		if name != nil && value != nil && value.Kind == token.STRING {
			fields[name.Name], _ = strconv.Unquote(value.Value)
		}
	}
	return fields
}
