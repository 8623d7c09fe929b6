// Command prove has berth-prove judge berth under all faults:
//
//	prove            five kinds of lock on two versions of RabbitMQ, with commands that behave in turn
//	prove all        the matrix of all kinds, versions and ways in which commands behave
//	prove mutants    berths that are broken on purpose, each of which has to be found out
//
// It prints a line for each run, goes on after a violation, and leaves NAME.html, .json, .jsonl and .txt below dist/prove.
// Of the matrix and the mutants it leaves a table as well, proof.md or mutants.md, and does not run again what was run to
// its end with the same programs and flags. The environment has more:
//
//	PROVE_VERSIONS   of RabbitMQ; scripts/brokers.sh installs what is missing
//	PROVE_TIME       for how long faults strike in each run: 45s, of mutants 5m
//	PROVE_SEED       of all runs; without it each draws its own
//	PROVE_JOBS       how many run at once: 1
//	PROVE_ONLY       a regular expression: of which names; without it all
//
// Exit status: 1 if anything was violated, or a mutant was not found out, else 2 if something cannot be judged.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	status, err := prove(ctx, strings.Join(os.Args[1:], " "))
	if err != nil {
		fmt.Fprintln(os.Stderr, "prove:", err)
		status = cmp.Or(status, 2)
	}
	os.Exit(status)
}

// modes are what there is to run.
var modes = map[string]struct {
	cells          func(bin string, on []broker) []*cell
	versions, time string
	table          string // "": all is run again each time
}{
	"":        {few, "3.10 4.3", "45s", ""},
	"all":     {all, "3.10 4.0 4.3", "45s", "dist/prove/proof.md"},
	"mutants": {mutants, "3.10", "5m", "dist/prove/mutants.md"},
}

// prove runs what a mode is about, and returns the exit status.
func prove(ctx context.Context, mode string) (status int, err error) {
	jobs, err := strconv.Atoi(cmp.Or(os.Getenv("PROVE_JOBS"), "1"))
	if err != nil || jobs < 1 {
		return 2, fmt.Errorf("PROVE_JOBS is %q; it must be above 0", os.Getenv("PROVE_JOBS"))
	}
	if _, known := modes[mode]; !known {
		return 2, fmt.Errorf("there is no %q: give nothing, all or mutants", mode)
	}
	bin, err := os.MkdirTemp("", "prove-")
	if err != nil {
		return 2, err
	}
	defer os.RemoveAll(bin)
	cells, err := prepare(mode, bin)
	if err != nil {
		return 2, err
	}
	table := modes[mode].table
	runAll(ctx, cells, jobs, table != "")
	if table != "" {
		err = os.WriteFile(table, []byte(page(cells)), 0o644)
		fmt.Println("the table is in", table)
	}
	if ctx.Err() != nil {
		err = errors.Join(err, errors.New("interrupted; what was run to its end is kept"))
	}
	for _, c := range cells {
		if s := c.status(); status != 1 && s != 0 {
			status = s
		}
	}
	return status, err
}

// prepare returns what is to be run, and makes what that needs. The programs are those of now: a build meanwhile changes
// nothing.
func prepare(mode, bin string) (cells []*cell, err error) {
	m, place := modes[mode], filepath.Join("dist/prove", mode)
	if err := errors.Join(os.MkdirAll(place, 0o755), copyInto(bin, "berth", "dist/berth-prove")); err != nil {
		return nil, fmt.Errorf("%w; make build prover makes both programs", err)
	}
	only, err := regexp.Compile(os.Getenv("PROVE_ONLY"))
	if err != nil {
		return nil, fmt.Errorf("PROVE_ONLY: %w", err)
	}
	brokers, err := install(strings.Fields(cmp.Or(os.Getenv("PROVE_VERSIONS"), m.versions)))
	if err != nil {
		return nil, err
	}
	for _, c := range m.cells(bin, brokers) {
		if only.MatchString(c.name) {
			c.name = filepath.Join(place, c.name)
			c.args = append([]string{"run", "--time", cmp.Or(os.Getenv("PROVE_TIME"), m.time)}, c.args...) // others count more
			cells = append(cells, c)
		}
	}
	return cells, nil
}

// install returns versions of RabbitMQ once they are installed.
func install(versions []string) (all []broker, err error) {
	for _, version := range versions {
		cmd := exec.Command("scripts/brokers.sh", version)
		cmd.Stderr = os.Stderr
		dir, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("RabbitMQ %s: %w", version, err)
		}
		start := "start"
		if strings.Contains(string(dir), "/dist/brokers/") {
			start += ":" + version
		}
		all = append(all, broker{version, start})
	}
	return all, nil
}

func copyInto(dir string, programs ...string) (err error) {
	for _, program := range programs {
		text, failed := os.ReadFile(program)
		err = errors.Join(err, failed, os.WriteFile(filepath.Join(dir, filepath.Base(program)), text, 0o755))
	}
	return err
}

// runAll runs cells, so many at once, until the context ends.
func runAll(ctx context.Context, cells []*cell, jobs int, resume bool) {
	next := make(chan *cell)
	var workers sync.WaitGroup
	var printing sync.Mutex
	for range jobs {
		workers.Go(func() {
			for c := range next {
				if ctx.Err() != nil {
					continue
				}
				err := c.prove(ctx, resume)
				printing.Lock()
				c.print(err)
				printing.Unlock()
			}
		})
	}
	for _, c := range cells {
		next <- c
	}
	close(next)
	workers.Wait()
}
