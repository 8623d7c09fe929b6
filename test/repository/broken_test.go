package repository

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// The suite of faults breaks berth on purpose, by replacing text of its source: an
// hour too late to learn that the text is no longer there.
func TestSourceHasTheTextThatFaultsReplace(t *testing.T) {
	const faults = "test/faults/broken_test.go"
	file, err := parser.ParseFile(token.NewFileSet(), faults, read(t, faults), 0)
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
		if n := strings.Count(read(t, fields["file"]), fields["old"]); n != 1 {
			t.Errorf("%s has %q %d times, not once; bring %s up to date", fields["file"], fields["old"], n, faults)
		}
		return true
	})
	if found == 0 {
		t.Errorf("no berth that was broken on purpose is found in %s", faults)
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
