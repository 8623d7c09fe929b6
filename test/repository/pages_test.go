package repository

import (
	"io/fs"
	"maps"
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
	named     = regexp.MustCompile("\\[`(\\w+)`\\]\\(([^)]+\\.go)\\)")
	anchored  = regexp.MustCompile(`\]\(([^):#]*\.md)?#([^)]+)\)`)
	unnamed   = regexp.MustCompile(`[^\pL\pN _-]`) // what a link leaves out of a heading
)

func allPages(t *testing.T) []string {
	t.Helper()
	pages, err := fs.Glob(tree, "docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	return append(pages, "README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md", "docs/messages.tsv", "docs/attacks.tsv")
}

// Names and links on pages outlive what they stand for.
func TestWhatPagesNameExists(t *testing.T) {
	tests := strings.Join(slices.Collect(maps.Values(sources(t, isTest))), "")
	for _, page := range allPages(t) {
		text := read(t, page)
		for _, name := range namedTest.FindAllString(text, -1) {
			if !strings.Contains(tests, "\nfunc "+name+"(") {
				t.Errorf("%s names %s, which does not exist", page, name)
			}
		}
		var files []string
		for _, found := range namedFile.FindAllStringSubmatch(text, -1) {
			files = append(files, found[1])
		}
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			files = append(files, filepath.Join(filepath.Dir(page), found[1]))
		}
		for _, file := range files {
			if _, err := fs.Stat(tree, file); err != nil {
				t.Errorf("%s names a file that does not exist: %v", page, err)
			}
		}
	}
}

// The walk in CONTRIBUTING.md leads from function to function.
func TestLinksToCodeNameWhatItDeclares(t *testing.T) {
	for _, page := range allPages(t) {
		for _, found := range named.FindAllStringSubmatch(read(t, page), -1) {
			file := filepath.Join(filepath.Dir(page), found[2])
			if !regexp.MustCompile(`(?m)^(func (\(.*?\) )?|var |type )` + found[1] + `\b`).MatchString(read(t, file)) {
				t.Errorf("%s says that %s has %s, which it does not declare", page, file, found[1])
			}
		}
	}
}

// A user of a package has no sources.
func TestPackagesHaveWhatTheReadmeLinks(t *testing.T) {
	_, archive, _ := strings.Cut(read(t, "packaging/build.sh"), "git archive HEAD ")
	archive, _, found := strings.Cut(archive, " |")
	if !found {
		t.Fatal("packaging/build.sh does not take the pages from git archive")
	}
	for _, linked := range link.FindAllStringSubmatch(read(t, "README.md"), -1) {
		if !slices.ContainsFunc(strings.Fields(archive), func(path string) bool {
			return linked[1] == path || strings.HasPrefix(linked[1], path+"/")
		}) {
			t.Errorf("README.md links %s, which packages do not have", linked[1])
		}
	}
}

// Headings change, and links to them lead to the top of a page then, unnoticed.
func TestLinksLeadToHeadings(t *testing.T) {
	known := map[string]map[string]bool{} // the anchors of each page
	for _, page := range allPages(t) {
		for _, found := range anchored.FindAllStringSubmatch(read(t, page), -1) {
			to := page
			if found[1] != "" {
				to = filepath.Join(filepath.Dir(page), found[1])
			}
			if known[to] == nil {
				known[to] = anchors(read(t, to))
			}
			if !known[to][found[2]] {
				t.Errorf("%s links to %s#%s, which is no heading", page, to, found[2])
			}
		}
	}
}

// anchors returns what a page's headings are called in links.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, line := range strings.Split(text, "\n") {
		if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
			name := strings.ToLower(strings.TrimSpace(title))
			all[strings.ReplaceAll(unnamed.ReplaceAllString(name, ""), " ", "-")] = true
		}
	}
	return all
}

func TestEveryDependencyHasItsReason(t *testing.T) {
	page := read(t, "CONTRIBUTING.md")
	for _, module := range []string{"go.mod", "test/faults/go.mod"} {
		for _, direct := range regexp.MustCompile(`(?m)^\t(\S+\.\S+) v\S+$`).FindAllStringSubmatch(read(t, module), -1) {
			name := strings.TrimPrefix(direct[1], "github.com/")
			if !strings.Contains(page, "`"+name+"`") {
				t.Errorf("CONTRIBUTING.md gives no reason for %s", direct[1])
			}
		}
	}
}
