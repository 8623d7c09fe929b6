package logging

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/test/page"
)

//go:generate go test -run TestEveryMessageIsExplained -args -update

// levels are those of the methods that log what users read; complain is one of the line of waiters.
var levels = map[string]string{"Info": "info", "Log": "info", "Warn": "warn", "complain": "warn", "Error": "error"}

// said is what the code logs: each message with its level. texts are all of its literals.
type said struct {
	levels map[string]string
	texts  []string
}

func readCode(t *testing.T) said {
	t.Helper()
	all := said{levels: map[string]string{}}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "test" || d.Name() == "dist"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || d.Name() == "messages.go":
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err == nil {
			ast.Inspect(file, all.add)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// add notes what a node of the source says.
func (s *said) add(node ast.Node) bool {
	if x, ok := node.(ast.Expr); ok {
		if text := literal(x); text != "" {
			s.texts = append(s.texts, text)
		}
	}
	call, ok := node.(*ast.CallExpr)
	if !ok {
		return true
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || levels[method.Sel.Name] == "" || method.Sel.Name != "complain" && !isLog(method.X) {
		return true
	}
	message := call.Args[0]
	if method.Sel.Name == "Log" {
		message = call.Args[1] // behind the level
	}
	for _, text := range beginnings(message) {
		s.levels[text] = levels[method.Sel.Name]
	}
	return true
}

// isLog reports whether an expression is called log, or ends so.
func isLog(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return strings.EqualFold(x.Name, "log")
	case *ast.SelectorExpr:
		return strings.EqualFold(x.Sel.Name, "log")
	}
	return false
}

// beginnings returns how the text may begin that an expression is.
func beginnings(x ast.Expr) (all []string) {
	if text := literal(x); text != "" {
		return []string{text}
	}
	switch x := x.(type) {
	case *ast.BinaryExpr:
		return beginnings(x.X)
	case *ast.CallExpr: // one of several
		for _, arg := range x.Args {
			all = append(all, beginnings(arg)...)
		}
	}
	return all
}

// literal returns the text that an expression is, put together from the lines of the source.
func literal(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(x.Value); err == nil && x.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		if left, right := literal(x.X), literal(x.Y); left != "" && right != "" {
			return left + right
		}
	}
	return ""
}

// explanation returns what explains a message, "" if nothing does.
func explanation(message string) (text string) {
	for _, m := range Messages {
		if strings.HasPrefix(message, m.Text) && len(m.Text) > len(text) {
			text = m.Text
		}
	}
	return text
}

func TestEveryMessageIsExplained(t *testing.T) {
	code := readCode(t)
	if len(code.levels) < 90 {
		t.Errorf("only %d messages are found in the code", len(code.levels))
	}
	found := map[string]string{} // the levels of what a text explains
	for message, level := range code.levels {
		text := explanation(message)
		if text == "" {
			t.Errorf("messages.go does not explain %q", message)
		}
		if !strings.Contains(found[text], level) {
			found[text] = strings.TrimPrefix(found[text]+", "+level, ", ")
		}
	}
	var rows strings.Builder
	rows.WriteString("message\tlevel\twhat it means\twhat to do\n")
	for _, m := range slices.SortedFunc(slices.Values(Messages), func(a, b Message) int {
		return cmp.Compare(sortKey(a.Text), sortKey(b.Text))
	}) {
		level := found[m.Text]
		if level == "" { // logged by way of a variable
			level = "warn"
			if !slices.ContainsFunc(code.texts, func(text string) bool { return strings.Contains(text, m.Text) }) {
				t.Errorf("messages.go explains %q, which berth does not log", m.Text)
			}
		}
		fmt.Fprintf(&rows, "%s\t%s\t%s\t%s\n", m.Text, level, m.Means, m.Do)
	}
	page.WantFile(t, "../../docs/messages.tsv", rows.String())
}

// sortKey is what a reader looks for: letters.
func sortKey(text string) string { return strings.ToLower(strings.TrimLeft(text, "-")) }
