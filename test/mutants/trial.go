package main

import (
	"context"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// maxCopied bounds how much source is compiled at once, in bytes.
const maxCopied = 1 << 20

// trial is that of the mutants of a package.
type trial struct {
	mutants  []Mutant
	verdicts []Verdict // of each
	sources  files     // what there is of the files that are changed
	benches  []*bench  // the tests, at least those of the package itself
	parallel int

	code digest // of the package without a change
}

// all tries the mutants.
func (t *trial) all(ctx context.Context) (err error) {
	beside, err := t.beside()
	if err != nil {
		return err
	}
	if t.code, err = t.benches[0].compile(ctx, "code", beside); err != nil {
		return err
	}
	for _, some := range t.batches() {
		if err := t.some(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// beside returns the file that is added to the package.
func (t *trial) beside() (files, error) {
	file := t.mutants[0].File
	parsed, err := parser.ParseFile(token.NewFileSet(), file, t.sources[file], parser.PackageClauseOnly)
	if err != nil {
		return nil, err
	}
	return files{filepath.Join(filepath.Dir(file), "mutants_tried.go"): fmt.Appendf(nil, beside, parsed.Name)}, nil
}

// batches divides the mutants into those that are built together. One without a copy is by itself.
func (t *trial) batches() (all [][]int) {
	var some []int
	copied := 0
	for i, m := range t.mutants {
		if m.of == nil {
			all = append(all, []int{i})
			continue
		}
		if copied += m.of.to - m.of.from; copied > maxCopied {
			all, some, copied = append(all, some), nil, m.of.to-m.of.from
		}
		some = append(some, i)
	}
	if some != nil {
		all = append(all, some)
	}
	return all
}

// changed returns the files with some mutants.
func (t *trial) changed(some []int) (files, error) {
	all, err := t.beside()
	if err != nil {
		return nil, err
	}
	if len(some) == 1 {
		m := t.mutants[some[0]]
		all[m.File] = m.Apply(t.sources[m.File])
		return all, nil
	}
	byFile := map[string]map[int]Mutant{}
	for _, i := range some {
		m := t.mutants[i]
		if byFile[m.File] == nil {
			byFile[m.File] = map[int]Mutant{}
		}
		byFile[m.File][i] = m
	}
	for file, mutants := range byFile {
		all[file] = Together(t.sources[file], mutants)
	}
	return all, nil
}

// some tries mutants that are built together.
func (t *trial) some(ctx context.Context, some []int) error {
	some, changed, err := t.valid(ctx, some)
	if err != nil || len(some) == 0 {
		return err
	}
	name := strconv.Itoa(some[0])
	for i, b := range t.benches {
		binary, err := b.build(ctx, fmt.Sprintf("%s-%d", name, i), changed)
		if err != nil {
			return err
		}
		t.each(some, func(i int) {
			if t.verdicts[i] == "" || t.verdicts[i] == Survived {
				t.verdicts[i] = Killed
				if passed, _ := b.test(ctx, binary, i); passed {
					t.verdicts[i] = Survived
				}
			}
		})
		_ = os.Remove(binary)
	}
	t.each(some, func(i int) {
		if t.verdicts[i] == Survived && t.isSame(ctx, i) {
			t.verdicts[i] = Same
		}
	})
	return ctx.Err()
}

// valid leaves out what does not compile.
func (t *trial) valid(ctx context.Context, some []int) (valid []int, changed files, err error) {
	for len(some) > 0 {
		if changed, err = t.changed(some); err != nil {
			return nil, nil, err
		}
		invalid, err := t.benches[0].mistakes(ctx, "valid", changed)
		switch {
		case len(some) == 1 && err != nil && ctx.Err() == nil:
			invalid = some
		case err != nil:
			return nil, nil, err
		case invalid == nil:
			return some, changed, nil
		}
		for _, i := range invalid {
			t.verdicts[i] = Invalid
		}
		valid = nil
		for _, i := range some {
			if t.verdicts[i] != Invalid {
				valid = append(valid, i)
			}
		}
		some = valid
	}
	return nil, nil, nil
}

// isSame reports whether the compiler makes of the mutant what it makes of the package as it is.
func (t *trial) isSame(ctx context.Context, i int) bool {
	changed, err := t.changed([]int{i})
	if err != nil {
		return false
	}
	code, err := t.benches[0].compile(ctx, "code"+strconv.Itoa(i), changed)
	return err == nil && code == t.code
}

// each does something for each mutant, several at once.
func (t *trial) each(some []int, do func(i int)) {
	next := make(chan int)
	var workers sync.WaitGroup
	for range t.parallel {
		workers.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for _, i := range some {
		next <- i
	}
	close(next)
	workers.Wait()
}
