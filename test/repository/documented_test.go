package repository

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Readers of --log-format json need to know what a key means.
func TestPageHasEveryKeyOfTheLog(t *testing.T) {
	page, known := read(t, "docs/messages.md"), 0
	for path, source := range sources(t, isNoTest) {
		file, err := parser.ParseFile(token.NewFileSet(), path, source, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range logKeys(file) {
			known++
			if !strings.Contains(page, "`"+key+"`") {
				t.Errorf("docs/messages.md does not explain the key %q, which %s logs", key, path)
			}
		}
	}
	if known < 50 {
		t.Errorf("only %d keys of log lines are found", known)
	}
}

// logKeys returns the keys in a file's calls such as log.Info("message", "key", value).
func logKeys(file *ast.File) (keys []string) {
	ast.Inspect(file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !isLog(method.X) {
			return true
		}
		args := call.Args
		switch {
		case slices.Contains([]string{"Trace", "Debug", "Info", "Warn", "Error"}, method.Sel.Name):
			args = args[1:]
		case method.Sel.Name != "With":
			return true
		}
		for i := 0; i < len(args); i += 2 {
			if text, ok := args[i].(*ast.BasicLit); ok && text.Kind == token.STRING {
				if key, err := strconv.Unquote(text.Value); err == nil {
					keys = append(keys, key)
				}
			}
		}
		return true
	})
	return keys
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

// Hooks decide by it what to do.
func TestPagesHaveEveryReasonOfAHook(t *testing.T) {
	const hooks = "supervisor/loop/hook.go"
	file, err := parser.ParseFile(token.NewFileSet(), hooks, read(t, hooks), 0)
	if err != nil {
		t.Fatal(err)
	}
	known := 0
	ast.Inspect(file, func(node ast.Node) bool {
		constant, ok := node.(*ast.ValueSpec)
		if !ok || len(constant.Values) != 1 || !strings.HasPrefix(constant.Names[0].Name, "reason") {
			return true
		}
		known++
		reason := strings.Trim(constant.Values[0].(*ast.BasicLit).Value, `"`)
		for page, want := range map[string]string{
			"docs/guide.md": "`" + reason + "`", "internal/cli/pages/manual.go": reason,
		} {
			if !strings.Contains(read(t, page), want) {
				t.Errorf("%s does not have the reason %s", page, reason)
			}
		}
		return true
	})
	if known < 5 {
		t.Errorf("only %d reasons are found", known)
	}
}
