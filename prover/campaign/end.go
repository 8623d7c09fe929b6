package campaign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"berth/prover/history"
	"berth/prover/witness"
)

// environment is a client's. A process that has the campaign's directory there is the campaign's.
func (c *campaign) environment(client string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		variable, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(v, "WITNESS_") || variable == c.SlotVariable || variable == c.TermVariable
	})
	all := c.Time + c.Progress + grace + healTimeout
	random := rand.New(rand.NewPCG(c.Seed, uint64(c.started)))
	works := leastWork + time.Duration(random.Int64N(int64(mostWork-leastWork)))
	return append(env, "WITNESS_CLIENT="+client, "WITNESS_DIR="+c.records(), "WITNESS_MODE="+c.Mode,
		"WITNESS_FOR="+works.String(), fmt.Sprintf("WITNESS_UNTIL=%d", c.began+int64(all)),
		"WITNESS_SLOT_VARIABLE="+c.SlotVariable, "WITNESS_TERM_VARIABLE="+c.TermVariable)
}

// end ends what was broken, all clients, and what they have left. Of an interrupted campaign it does so sooner.
func (c *campaign) end(ctx context.Context) error {
	err := c.heal(ctx)
	patience := min(grace, c.Progress) // else those that wait would seem to wait for a slot
	if ctx.Err() != nil {
		patience /= 10
	}
	var ending sync.WaitGroup
	for _, one := range c.clients {
		ending.Go(func() { one.End(patience) })
	}
	ending.Wait()
	for _, one := range c.clients {
		c.bury(one)
	}
	return errors.Join(err, c.sweep())
}

// sweep notes and kills what lives on.
func (c *campaign) sweep() error {
	const orphan = time.Second // as checkers have it
	for over := time.Now().Add(orphan); len(c.living()) > 0 && time.Now().Before(over); {
		time.Sleep(tick)
	}
	for pid, name := range c.living() {
		c.note(history.Event{Kind: history.Leftover, Client: name, PID: pid, At: history.Now()})
	}
	for over := time.Now().Add(grace); ; time.Sleep(tick) { // again and again: they may fork
		left := c.living()
		switch {
		case len(left) == 0:
			return nil
		case time.Now().After(over):
			return fmt.Errorf("processes are still there that do not die of KILL: %v", left)
		}
		for pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// living returns all processes of the campaign, each with its client.
func (c *campaign) living() map[int]string {
	left := map[int]string{}
	mark := "WITNESS_DIR=" + c.records()
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, _ := os.ReadFile(file) // "": it is gone, a zombie, or somebody else's
		if !bytes.Contains(env, []byte(mark+"\x00")) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		left[pid] = "unknown"
		for v := range strings.SplitSeq(string(env), "\x00") {
			if name, found := strings.CutPrefix(v, "WITNESS_CLIENT="); found {
				left[pid] = name
			}
		}
	}
	return left
}

// gather adds what witnesses wrote down.
func (c *campaign) gather() error {
	lives, err := witness.Read(c.records())
	for _, l := range lives {
		c.note(l)
	}
	return err
}
