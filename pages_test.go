package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

var (
	namedTest = regexp.MustCompile(`\bTest[A-Z]\w+`)
	namedFile = regexp.MustCompile("`((?:\\w+/)+\\w+\\.go)`")
	link      = regexp.MustCompile(`\]\(([^):#]+)(?:#[^)]*)?\)`)
)

// Names and links on pages outlive what they stand for.
func TestWhatPagesNameExists(t *testing.T) {
	tests := bytes.Join(slices.Collect(maps.Values(testFiles(t))), nil)
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "README.md", "CONTRIBUTING.md", "CHANGELOG.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range namedTest.FindAll(text, -1) {
			if !bytes.Contains(tests, fmt.Appendf(nil, "\nfunc %s(", name)) {
				t.Errorf("%s names %s, which does not exist", page, name)
			}
		}
		var files []string
		for _, found := range namedFile.FindAllSubmatch(text, -1) {
			files = append(files, string(found[1]))
		}
		for _, found := range link.FindAllSubmatch(text, -1) {
			files = append(files, filepath.Join(filepath.Dir(page), string(found[1])))
		}
		for _, file := range files {
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s names a file that does not exist: %v", page, err)
			}
		}
	}
}
