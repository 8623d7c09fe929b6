package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	namedTest = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`)
	namedFile = regexp.MustCompile("`((?:\\w+/)+\\w+\\.go)`")
	link      = regexp.MustCompile(`\]\(([^):#]+)(?:#[^)]*)?\)`)
)

// Names and links on pages outlive what they stand for.
func TestWhatPagesNameExists(t *testing.T) {
	tests := bytes.Join(slices.Collect(maps.Values(sources(t, isTest))), nil)
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md") {
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

// The guide explains messages; it has to have them as they are.
func TestGuideExplainsMessagesThatExist(t *testing.T) {
	guide, err := os.ReadFile("docs/guide.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(guide), "## What each message means")
	section, _, _ = strings.Cut(section, "\n## ")
	var code strings.Builder
	for _, source := range sources(t, func(path string) bool { return !strings.HasSuffix(path, "_test.go") }) {
		code.Write(source)
	}
	found := regexp.MustCompile("(?m)`([a-z][^`]* [^`]*)`[,:]").FindAllStringSubmatch(section, -1)
	if len(found) < 20 {
		t.Errorf("the guide explains %d messages only", len(found))
	}
	for _, message := range found {
		if text := strings.Join(strings.Fields(message[1]), " "); !strings.Contains(code.String(), text) {
			t.Errorf("the guide explains %q, which berth does not say", text)
		}
	}
}

func TestEveryDependencyHasItsReason(t *testing.T) {
	page, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"go.mod", "test/faults/go.mod"} {
		text, err := os.ReadFile(module)
		if err != nil {
			t.Fatal(err)
		}
		for _, direct := range regexp.MustCompile(`(?m)^\t(\S+\.\S+) v\S+$`).FindAllSubmatch(text, -1) {
			name := strings.TrimPrefix(string(direct[1]), "github.com/")
			if !bytes.Contains(page, []byte("`"+name+"`")) {
				t.Errorf("CONTRIBUTING.md gives no reason for %s", direct[1])
			}
		}
	}
}
