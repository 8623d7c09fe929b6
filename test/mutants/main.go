// Command mutants breaks the decisions of berth one at a time, and lists what no test of its package notices:
//
//	make mutants
//	make mutants MUTANTS="./supervisor/machine ./lock/rabbit/ledger"
//
// A mutant is the package with one change: a condition that always holds or never does, a statement or a row of a table
// that is missing, a value that is nothing, another operator, a number that is one more. The tests are those of the
// package itself, which start no broker and no program; what only such tests can show is not tried here. Pages that are
// generated from the code are no test of it: they are written again when it changes.
//
// A mutant that does the same as the original for every input is listed in equivalent.txt, with the reason. One that
// the compiler makes the same program of needs no line there.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// scope is what is broken of a package.
type scope struct {
	pkg   string
	files string   // which files: a regular expression; "": all
	names string   // which functions and variables in them; "": all
	tests []string // packages that use it and whose tests count besides its own
	skip  string   // tests that are none of what the code decides
	but   string   // mutants of what people alone read: a regular expression of their lines; "": none
	most  float64
}

// scopes are the decisions. most is how many of 100 mutants may survive.
var scopes = []scope{
	{pkg: "./supervisor", files: `^state\.go`, names: `^State\.`},
	{pkg: "./supervisor/machine", files: `^(table|ending|health|machine)\.go`, skip: "TestDiagram"},
	{pkg: "./lock/rabbit/ledger", files: `^(history|doubt|record)\.go`},
	{pkg: "./lock/rabbit/holding", files: `^(decide|wait|quorum|quorum_decide|quorum_enter)\.go`,
		names: `ituation\.|^afterClaim$|^patientClaims$|\.left$|^undisturbed$|judgeRecords$|\.delay$`, most: 5},
	{pkg: "./internal/config", skip: "TestDocumentation", but: `: table: nothing: (group[A-Z]|")`, most: 5},
	{pkg: "./internal/check", skip: "TestPage", most: 5},
	{pkg: "./internal/brokerurl", tests: []string{"./internal/config"}, skip: "TestDocumentation", most: 5},
	{pkg: "./internal/guard/wire", most: 5},
}

//go:embed equivalent.txt
var equivalents string

func main() {
	parallel := flag.Int("p", runtime.NumCPU(), "how many mutants are tried at once")
	only := flag.String("only", "", "try mutants alone whose line matches this regular `expression`")
	list := flag.Bool("list", false, "list the mutants, and try none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		fail(err)
	}
	m := run{root: root(), dir: dir, parallel: *parallel, only: regexp.MustCompile(*only), list: *list}
	ok, err := m.all(ctx, flag.Args())
	_ = os.RemoveAll(dir)
	if err != nil {
		fail(err)
	}
	if !ok {
		os.Exit(1)
	}
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "mutants: %v\n", err)
	os.Exit(2)
}

// root is the directory that has go.mod.
func root() string {
	dir, err := os.Getwd()
	if err != nil {
		fail(err)
	}
	for up := dir; ; up = filepath.Dir(up) {
		if _, err := os.Stat(filepath.Join(up, "go.mod")); err == nil {
			return up
		}
		if up == filepath.Dir(up) {
			fail(fmt.Errorf("%s is in no module", dir))
		}
	}
}

// run tries the mutants of some packages.
type run struct {
	root, dir string
	parallel  int
	only      *regexp.Regexp
	list      bool
}

// all tries the packages that are named, or all that have decisions, and reports whether few enough survive.
func (r *run) all(ctx context.Context, packages []string) (ok bool, err error) {
	for _, pkg := range packages {
		if !slices.ContainsFunc(scopes, func(s scope) bool { return s.pkg == pkg }) {
			return false, fmt.Errorf("no decisions are listed of %s", pkg)
		}
	}
	ok = true
	for _, s := range scopes {
		if len(packages) > 0 && !slices.Contains(packages, s.pkg) {
			continue
		}
		few, err := r.scope(ctx, s)
		if err != nil {
			return false, err
		}
		ok = ok && few
	}
	return ok, nil
}

func (r *run) scope(ctx context.Context, s scope) (few bool, err error) {
	mutants, err := r.mutants(s)
	if err != nil {
		return false, err
	}
	if r.list {
		for _, m := range mutants {
			fmt.Printf("%s:%d: %s: %s\n", m.File, m.Line, m.In, m.What)
		}
		return true, nil
	}
	began := time.Now()
	verdicts, err := r.verdicts(ctx, s, mutants)
	if err != nil {
		return false, err
	}
	alike := equivalent()
	counts := map[Verdict]int{}
	listed := 0
	for i, m := range mutants {
		counts[verdicts[i]]++
		_, same := alike[m.String()]
		switch {
		case verdicts[i] != Survived:
		case same:
			listed++
		default:
			fmt.Printf("%s:%d: %s: %s\n", m.File, m.Line, m.In, m.What)
		}
	}
	survive := counts[Survived] - listed
	tried := counts[Killed] + survive
	share := 100 * float64(survive) / float64(max(tried, 1))
	fmt.Printf("%s: %d of %d mutants survive (%.1f %%, at most %.0f); left out: %d that are the same program, %d that do "+
		"the same (equivalent.txt), %d that do not compile; %.0f s\n", s.pkg, survive, tried, share, s.most, counts[Same],
		listed, counts[Invalid], time.Since(began).Seconds())
	return share <= s.most, nil
}

// mutants returns all that are to be tried of a package.
func (r *run) mutants(s scope) (all []Mutant, err error) {
	paths, err := filepath.Glob(filepath.Join(r.root, s.pkg, "*.go"))
	if err != nil {
		return nil, err
	}
	sources := map[string][]byte{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		if sources[filepath.Join(s.pkg, filepath.Base(path))], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	parsed, err := Parse(sources)
	if err != nil {
		return nil, err
	}
	files, names := regexp.MustCompile(s.files), regexp.MustCompile(s.names)
	for _, file := range slices.Sorted(maps.Keys(sources)) {
		if files.MatchString(filepath.Base(file)) {
			all = append(all, parsed.Mutants(file, names.MatchString)...)
		}
	}
	but := regexp.MustCompile(s.but)
	return slices.DeleteFunc(all, func(m Mutant) bool {
		return !r.only.MatchString(m.String()) || s.but != "" && but.MatchString(m.String())
	}), nil
}

// verdicts tries the mutants of a package.
func (r *run) verdicts(ctx context.Context, s scope, mutants []Mutant) ([]Verdict, error) {
	t := &trial{mutants: mutants, verdicts: make([]Verdict, len(mutants)), parallel: r.parallel, sources: files{}}
	if len(mutants) == 0 {
		return nil, nil
	}
	for _, tests := range append([]string{s.pkg}, s.tests...) {
		b := &bench{root: r.root, dir: r.dir, pkg: s.pkg, tests: tests, skip: s.skip}
		if err := b.prepare(ctx); err != nil {
			return nil, err
		}
		t.benches = append(t.benches, b)
	}
	for _, m := range mutants {
		source, err := os.ReadFile(filepath.Join(r.root, m.File))
		if err != nil {
			return nil, err
		}
		t.sources[m.File] = source
	}
	return t.verdicts, t.all(ctx)
}

// equivalent returns the mutants that do what the original does, with the reason. In equivalent.txt a reason, which is
// indented, is that of the lines before it.
func equivalent() map[string]string {
	reasons := map[string]string{}
	var before []string
	for line := range strings.Lines(equivalents) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == ' ':
			for _, m := range before {
				reasons[m] = strings.TrimSpace(line)
			}
			before = nil
		default:
			before = append(before, line)
		}
	}
	return reasons
}
