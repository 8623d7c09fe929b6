package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Verdict is what came of a mutant.
type Verdict string

// The verdicts.
const (
	Killed   Verdict = "killed"           // a test has failed, or did not end
	Survived Verdict = "survived"         // no test has failed
	Invalid  Verdict = "does not compile" // and says nothing
	Same     Verdict = "same program"     // the compiler has made the same of it
)

const (
	// maxMemory bounds a test that goes on for ever. A test binary reserves a gigabyte or two without using them.
	maxMemory = 4 << 30

	// patience is for how many times as long as the tests take, and slack for how much longer, a mutant's tests run before
	// they count as failed.
	patience = 5
	slack    = 5 * time.Second
)

// digest tells one build from another.
type digest = [sha256.Size]byte

// files are contents of files that are built in place of what there is, by their names, relative to the module's root.
type files = map[string][]byte

// bench is where the mutants of one package are built and tried. Its methods may be called from several goroutines.
type bench struct {
	root, dir string // of the module; for what is built
	pkg       string // "./lock/rabbit/ledger"
	tests     string // the package whose tests are run
	skip      string // which are not, as for go test; "": none

	limit time.Duration // for a mutant's tests
}

// prepare builds the tests and runs them as they are.
func (b *bench) prepare(ctx context.Context) error {
	b.limit = time.Minute
	binary, err := b.build(ctx, "whole", nil)
	if err != nil {
		return err
	}
	defer os.Remove(binary)
	began := time.Now()
	if passed, output := b.test(ctx, binary, none); !passed {
		return fmt.Errorf("the tests of %s fail without a change:\n%s", b.tests, output)
	}
	b.limit = patience*time.Since(began) + slack
	return nil
}

// build builds the package's tests with other contents of some files.
func (b *bench) build(ctx context.Context, name string, changed files) (binary string, err error) {
	binary = filepath.Join(b.dir, name+".test")
	_, err = b.with(ctx, name, changed, "test", "-c", "-vet=off", "-ldflags", "-s -w", "-o", binary, b.tests)
	return binary, err
}

// compile returns what the compiler makes of the package.
func (b *bench) compile(ctx context.Context, name string, changed files) (digest, error) {
	code, err := b.with(ctx, name, changed, "build", "-gcflags", "-S", b.pkg)
	return sha256.Sum256(code), err
}

// mistake is where the compiler finds one in the copy of a mutant.
var mistake = regexp.MustCompile(`\bmutant([0-9]+)\.go:`)

// mistakes returns the mutants that do not compile of those that are built together.
func (b *bench) mistakes(ctx context.Context, name string, changed files) (invalid []int, err error) {
	_, err = b.with(ctx, name, changed, "build", "-gcflags", "-e", b.pkg)
	var failed *exec.ExitError
	if !errors.As(err, &failed) {
		return nil, err
	}
	for _, found := range mistake.FindAllStringSubmatch(err.Error(), -1) {
		n, _ := strconv.Atoi(found[1])
		invalid = append(invalid, n)
	}
	if invalid == nil {
		return nil, err
	}
	return invalid, nil
}

// with has the go command do something about the package, which has other contents of some files.
func (b *bench) with(ctx context.Context, name string, changed files, args ...string) ([]byte, error) {
	dir := filepath.Join(b.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	places := map[string]string{}
	for file, contents := range changed {
		place := filepath.Join(dir, filepath.Base(file))
		places[filepath.Join(b.root, file)] = place
		if err := os.WriteFile(place, contents, 0o600); err != nil {
			return nil, err
		}
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": places})
	if err != nil {
		return nil, err
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", slices.Insert(args, 1, "-overlay", overlay)...)
	cmd.Dir = b.root
	output, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("cannot build %s: %w\n%s", b.tests, err, output)
	}
	return output, nil
}

// none is the number of no mutant.
const none = -1

// test reports whether the tests pass with one of the mutants that are in the binary.
func (b *bench) test(ctx context.Context, binary string, mutant int) (passed bool, output []byte) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.failfast", "-test.skip", b.skip)
	cmd.Dir = filepath.Join(b.root, b.tests)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", variable, mutant))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return false, []byte(err.Error())
	}
	_ = unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: maxMemory, Max: maxMemory}, nil)
	return cmd.Wait() == nil, said.Bytes()
}
