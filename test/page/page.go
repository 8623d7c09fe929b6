// Package page compares the generated parts of pages with what they have to be, and writes them again in tests that are
// given -update:
//
//	//go:generate go test -run TestPageListsTheOptions -args -update
//
//	page.Want(t, "../../docs/configuration.md", "options", list)
//
// A part begins after a line <!-- NAME: who makes it --> and ends before a line <!-- end of NAME -->. Long tables are
// files of their own, which are generated whole.
package page

import (
	"flag"
	"os"
	"regexp"
	"testing"
)

var update = flag.Bool("update", false, "write the generated parts of pages again")

// Part returns a generated part of a page.
func Part(t testing.TB, path, name string) string {
	t.Helper()
	text, from, to := find(t, path, name)
	return text[from:to]
}

// Want fails the test unless the part is as wanted, or writes it with -update.
func Want(t testing.TB, path, name, want string) {
	t.Helper()
	text, from, to := find(t, path, name)
	switch {
	case text[from:to] == want:
		return
	case !*update:
		t.Fatalf("the part %q of %s is out of date; run: make docs", name, path)
	}
	if err := os.WriteFile(path, []byte(text[:from]+want+text[to:]), 0o644); err != nil {
		t.Fatal(err)
	}
}

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

func find(t testing.TB, path, name string) (text string, from, to int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	part := regexp.MustCompile(`(?s)<!-- ` + name + `: [^\n]* -->\n(.*)<!-- end of ` + name + ` -->\n`)
	found := part.FindSubmatchIndex(data)
	if found == nil {
		t.Fatalf("%s has no part %q", path, name)
	}
	return string(data), found[2], found[3]
}
