package simulation

import (
	"flag"
	"os"
	"testing"
	"time"

	"berth/test/simulation/history"
)

var (
	seeds = flag.Int("seeds", 20, "how many seeds are simulated")
	first = flag.Uint64("first", 1, "the first of them")
	one   = flag.Uint64("seed", 0, "simulate this seed alone, and show its history")
	kind  = flag.String("kind", "mutex", "what sort of lock is simulated")
	nodes = flag.Int("nodes", 1, "on how many nodes")
)

func TestSeeds(t *testing.T) {
	if *one != 0 {
		p := Draw(*one, *kind, *nodes)
		p.Verbose = true
		r := Run(t, p)
		_, _ = r.History.WriteTo(os.Stdout)
		for _, v := range r.History.Violations() {
			t.Error(v)
		}
		return
	}
	began, windows := time.Now(), &history.Windows{}
	var simulated time.Duration
	var commands, failed int
	for i := range *seeds {
		seed := *first + uint64(i)
		r := Run(t, Draw(seed, *kind, *nodes))
		windows.Add(r.History.Windows)
		all, _ := r.History.Spans()
		simulated, commands = simulated+r.Took, commands+all
		for n, v := range r.History.Violations() {
			if n < 3 {
				t.Errorf("seed %d: %s", seed, v)
			}
		}
		if len(r.History.Violations()) > 0 {
			failed++
		}
	}
	took := time.Since(began)
	t.Logf("%d seeds of %s on %d nodes in %s (%.1f a second), %s simulated, %d commands, %d with violations", *seeds, *kind, *nodes,
		took.Round(time.Millisecond), float64(*seeds)/took.Seconds(), simulated.Round(time.Second), commands, failed)
	windows.Print(os.Stdout)
}
