package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"berth/prover/judge"
	"berth/prover/report"
	"berth/test/broken"
)

// cell is one run of berth-prove.
type cell struct {
	name   string        // of its files, but for their ends
	bin    string        // the directory with its berth and berth-prove
	args   []string      // of berth-prove, but for seed and files
	broken *broken.Berth // that has to be found out; nil: nothing may be violated

	ended  bool // it was run to its end, and there is a verdict
	report report.Report
}

// patience is how long a berth-prove that is interrupted may take to end what it has started.
const patience = time.Minute

// status is what a cell adds to the exit status.
func (c *cell) status() int {
	violated := slices.ContainsFunc(c.report.Verdicts, func(v judge.Verdict) bool { return v.Outcome == judge.Violated })
	switch {
	case !c.ended:
		return 2
	case violated != (c.broken != nil):
		return 1
	}
	return 0
}

// prove runs the cell, unless it was run to its end before and may be left so.
func (c *cell) prove(ctx context.Context, resume bool) error {
	if c.broken != nil {
		err := errors.Join(os.Mkdir(c.bin, 0o755), copyInto(c.bin, filepath.Join(filepath.Dir(c.bin), "berth-prove")),
			c.broken.Build(".", filepath.Join(c.bin, "berth")))
		if err != nil {
			return err
		}
	}
	key, err := c.key()
	if err != nil {
		return err
	}
	mark := c.name + ".ended"
	if before, _ := os.ReadFile(mark); resume && string(before) == key && c.read() == nil {
		c.ended = true
		return nil
	}
	_ = os.Remove(mark)
	status, err := c.run(ctx)
	if err != nil || status > 1 || status != 1 && ctx.Err() != nil { // what is violated stays so
		return err
	}
	if err := errors.Join(c.read(), os.WriteFile(mark, []byte(key), 0o644)); err != nil {
		return err
	}
	c.ended = true
	return nil
}

// key is another one for other programs, flags or a seed that is wanted.
func (c *cell) key() (string, error) {
	sum := sha256.New()
	for _, program := range []string{"berth", "berth-prove"} {
		text, err := os.ReadFile(filepath.Join(c.bin, program))
		if err != nil {
			return "", err
		}
		sum.Write(text)
	}
	fmt.Fprintf(sum, "%q %s", c.args, os.Getenv("PROVE_SEED"))
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

// run returns berth-prove's exit status. It is interrupted when the context ends, and by nothing else: it has a process
// group of its own.
func (c *cell) run(ctx context.Context) (status int, err error) {
	out, err := os.Create(c.name + ".txt")
	if err != nil {
		return 0, err
	}
	defer out.Close()
	seed := os.Getenv("PROVE_SEED")
	if seed == "" {
		seed = fmt.Sprint(rand.N(1_000_000))
	}
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, "berth-prove"), append(c.args, "--seed", seed,
		"--history", c.name+".jsonl", "--report", c.name+".json", "--report", c.name+".html")...)
	cmd.Env = append(os.Environ(), "PATH="+c.bin+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, out, patience
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	if err := cmd.Run(); cmd.ProcessState == nil {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), nil
}

// read reads the report.
func (c *cell) read() error {
	text, err := os.ReadFile(c.name + ".json")
	if err != nil {
		return err
	}
	return json.Unmarshal(text, &c.report)
}
