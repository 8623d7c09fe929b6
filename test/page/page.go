// Package page compares generated files of the documentation with what they have to be, and writes them again in tests
// that are given -update:
//
//	//go:generate go test -run TestDocumentationListsTheOptions -args -update
//
//	page.WantFile(t, "../../docs/settings.txt", list)
package page

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write generated files again")

// WantFile fails the test unless a generated file is as wanted, or writes it with -update.
func WantFile(t testing.TB, path, want string) {
	t.Helper()
	if text, err := os.ReadFile(path); err == nil && string(text) == want {
		return
	}
	if !*update {
		t.Fatalf("%s is out of date; run: make docs", path)
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
