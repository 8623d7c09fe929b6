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
	"slices"
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
	// mostMemory bounds a test that goes on for ever. A test binary reserves a gigabyte or two without using them.
	mostMemory = 4 << 30

	// patience is for how many times as long as the tests take, and slack for how much longer, a mutant's tests run before
	// they count as failed.
	patience = 5
	slack    = 5 * time.Second
)

// digest tells one build from another.
type digest = [sha256.Size]byte

// bench is where the mutants of one package are built and tried. Its methods may be called from several goroutines.
type bench struct {
	root, dir string // of the module; for what is built
	pkg       string // "./lock/rabbit/ledger"
	tests     string // the package whose tests are run
	skip      string // which are not, as for go test; "": none

	program, code digest        // of the test binary and of the package without a change
	limit         time.Duration // for a mutant's tests
}

// prepare builds the tests and runs them as they are.
func (b *bench) prepare(ctx context.Context, file string) error {
	b.limit = time.Minute
	source, err := os.ReadFile(filepath.Join(b.root, file))
	if err != nil {
		return err
	}
	binary, sum, err := b.build(ctx, "whole", file, source)
	if err != nil {
		return err
	}
	defer os.Remove(binary)
	began := time.Now()
	if passed, output := b.test(ctx, binary); !passed {
		return fmt.Errorf("the tests of %s fail without a change:\n%s", b.tests, output)
	}
	b.program, b.limit = sum, patience*time.Since(began)+slack
	b.code, err = b.compile(ctx, "whole", file, source)
	return err
}

// try says whether a test fails with the mutant.
func (b *bench) try(ctx context.Context, name string, m Mutant) (Verdict, error) {
	source, err := os.ReadFile(filepath.Join(b.root, m.File))
	if err != nil {
		return "", err
	}
	binary, sum, err := b.build(ctx, name, m.File, m.Apply(source))
	var failed *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.As(err, &failed):
		return Invalid, nil
	case err != nil:
		return "", err
	}
	defer os.Remove(binary)
	if sum == b.program { // or the tests have nothing of what was changed
		code, err := b.compile(ctx, name, m.File, m.Apply(source))
		if err == nil && code == b.code {
			return Same, nil
		}
		return Survived, err
	}
	if passed, _ := b.test(ctx, binary); passed {
		return Survived, nil
	}
	return Killed, ctx.Err()
}

// build builds the package's tests with other contents of one file, without what tells one build from another.
func (b *bench) build(ctx context.Context, name, file string, contents []byte) (binary string, sum digest, err error) {
	binary = filepath.Join(b.dir, name+".test")
	_, err = b.with(ctx, name, file, contents, "test", "-c", "-vet=off", "-ldflags", "-s -w -buildid=", "-o", binary,
		b.tests)
	if err != nil {
		return "", sum, err
	}
	built, err := os.ReadFile(binary)
	return binary, sha256.Sum256(built), err
}

// compile returns what the compiler makes of the package.
func (b *bench) compile(ctx context.Context, name, file string, contents []byte) (digest, error) {
	code, err := b.with(ctx, name, file, contents, "build", "-gcflags", "-S", b.pkg)
	return sha256.Sum256(code), err
}

// with has the go command do something about the package, which has other contents of one file.
func (b *bench) with(ctx context.Context, name, file string, contents []byte, args ...string) ([]byte, error) {
	changed, overlay := filepath.Join(b.dir, name+".go"), filepath.Join(b.dir, name+".json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(b.root, file): changed}})
	if err != nil {
		return nil, err
	}
	defer os.Remove(changed)
	defer os.Remove(overlay)
	if err := errors.Join(os.WriteFile(changed, contents, 0o600), os.WriteFile(overlay, list, 0o600)); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", slices.Insert(args, 1, "-overlay", overlay)...)
	cmd.Dir = b.root
	output, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("cannot build %s: %w\n%s", b.tests, err, output)
	}
	return output, nil
}

// test reports whether the tests pass.
func (b *bench) test(ctx context.Context, binary string) (passed bool, output []byte) {
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.failfast", "-test.skip", b.skip)
	cmd.Dir = filepath.Join(b.root, b.tests)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return false, []byte(err.Error())
	}
	_ = unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: mostMemory, Max: mostMemory}, nil)
	return cmd.Wait() == nil, said.Bytes()
}
