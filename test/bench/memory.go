package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// settled is how long a holder and its waiter are left alone before their memory
// is looked at.
const settled = 3 * time.Second

// footprint is what processes use, in KiB.
type footprint struct {
	private int // in no other process
	pss     int // and their share of what others have, too
}

// measureMemory measures one holder and one waiter at a time: more of them would
// share pages that are private otherwise.
func (b *bench) measureMemory(ctx context.Context) ([]*measure, error) {
	holderPrivate := &measure{ID: "holder-private", Title: "Private memory of a holder, without its command", Unit: "KiB", Plot: true}
	waiterPrivate := &measure{ID: "waiter-private", Title: "Private memory of a waiter", Unit: "KiB", Plot: true}
	holderPSS := &measure{ID: "holder-pss", Title: "PSS of a holder, without its command", Unit: "KiB"}
	waiterPSS := &measure{ID: "waiter-pss", Title: "PSS of a waiter", Unit: "KiB"}
	err := b.rounds(ctx, b.options.memory, b.arena.contenders, func(_ int, c *contender) error {
		holder, err := b.arena.launch(c, "memory", longRun)
		if err != nil {
			return err
		}
		defer holder.close()
		if _, err := holder.awaitStart(ctx); err != nil {
			return err
		}
		waiter, err := b.arena.launch(c, "memory", 0)
		if err != nil {
			return err
		}
		defer waiter.close()
		if err := sleep(ctx, settled); err != nil {
			return err
		}
		h, err := b.arena.footprint(holder)
		if err != nil {
			return err
		}
		w, err := b.arena.footprint(waiter)
		if err != nil {
			return err
		}
		holderPrivate.add(c.name, float64(h.private))
		waiterPrivate.add(c.name, float64(w.private))
		holderPSS.add(c.name, float64(h.pss))
		waiterPSS.add(c.name, float64(w.pss))
		if err := holder.release(ctx); err != nil {
			return err
		}
		_, err = waiter.awaitEnd(ctx)
		return err
	})
	return []*measure{waiterPrivate, holderPrivate, waiterPSS, holderPSS}, err
}

// footprint adds up a wrapper and all that is below it but the command.
func (a *arena) footprint(t *attempt) (footprint, error) {
	var sum footprint
	for _, pid := range append([]int{t.Process.Pid}, descendants(t.Process.Pid)...) {
		if executable(pid) == a.stamp {
			continue
		}
		rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return sum, fmt.Errorf("cannot read the memory of %s: %w", t.of.name, err)
		}
		one, err := readRollup(string(rollup))
		if err != nil {
			return sum, err
		}
		sum.private += one.private
		sum.pss += one.pss
	}
	return sum, nil
}

// readRollup reads what /proc/PID/smaps_rollup says.
func readRollup(text string) (footprint, error) {
	var f footprint
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[2] != "kB" {
			continue
		}
		kib, err := strconv.Atoi(fields[1])
		if err != nil {
			return f, fmt.Errorf("cannot read line %q of smaps_rollup: %w", line, err)
		}
		switch fields[0] {
		case "Private_Clean:", "Private_Dirty:":
			f.private += kib
		case "Pss:":
			f.pss += kib
		}
	}
	if f.pss == 0 {
		return f, fmt.Errorf("smaps_rollup has no Pss:\n%s", text)
	}
	return f, nil
}
