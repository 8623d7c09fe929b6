// Package repository tests what no package can test alone: that packages import only what they may, that pages name
// what exists and explain what they must, that the fault table counts its tests, that README.md has the measured
// figures.
//
// Every path is relative to the top of the repository:
//
//	text := read(t, "docs/messages.md")
package repository

import (
	"io/fs"
	"os"
	"strings"
	"testing"
)

// top is the top of the repository, from the directory in which this package's tests run.
const top = "../.."

// tree is the repository. The go command sees what is opened through it, and runs these tests again when that has
// changed.
var tree = os.DirFS(top)

// read returns the text of a file.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := fs.ReadFile(tree, path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sources returns the Go files that are wanted, by their path.
func sources(t *testing.T, wanted func(path string) bool) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".go") && wanted(path) {
			files[path] = read(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func isTest(path string) bool { return strings.HasSuffix(path, "_test.go") }

func isNoTest(path string) bool { return !isTest(path) }
