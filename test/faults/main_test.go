package faults

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"berth/prover/witness"
	"berth/test/brokertest"
)

var (
	binary  string             // the berth of this tree, or FAULTS_BERTH
	command string             // the witness that every berth runs
	rabbit  *brokertest.Broker // every test leaves it running, without an alarm
	rounds  = 3                // how often each fault is tried; FAULTS_RUNS changes it
	results table
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if text := os.Getenv("FAULTS_RUNS"); text != "" {
		if rounds, err = strconv.Atoi(text); err != nil || rounds < 1 {
			return 1, fmt.Errorf("FAULTS_RUNS=%s is not a number above 0", text)
		}
	}
	dir, err := os.MkdirTemp("", "berth-faults-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	binary, command = filepath.Join(dir, "berth"), filepath.Join(dir, witness.Name)
	if other := os.Getenv("FAULTS_BERTH"); other != "" {
		binary = other
	} else if err := build("../..", ".", binary); err != nil {
		return 1, err
	}
	if err := build("../..", "./prover", command); err != nil {
		return 1, err
	}
	if rabbit, err = brokertest.Start(context.Background()); err != nil {
		return 1, err
	}
	code = m.Run()
	results.print(os.Stdout)
	return code, rabbit.Stop()
}

// build builds a static program.
func build(dir, pkg, to string) error {
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", to, pkg)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build %s: %w\n%s", pkg, err, out)
	}
	return nil
}
