//go:build simulation

package simulation

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"
	"time"

	"berth/test/simulation/history"
)

var (
	seeds  = flag.Int("seeds", 10, "how many seeds are simulated of each kind")
	first  = flag.Uint64("first", 1, "the first of them")
	one    = flag.Uint64("seed", 0, "simulate this seed alone, and show its history")
	kind   = flag.String("kind", "", "which kind of lock is simulated, `mutex` for example; empty: all of them")
	nodes  = flag.Int("nodes", 1, "on how many nodes")
	sums   = flag.Bool("sums", false, "show a sum of each history")
	table  = flag.Bool("windows", false, "show how often something befell a process after which step")
	small  = flag.Bool("shrink", false, "with -seed: show the smallest history that is found which still fails")
	mutant = flag.Bool("mutants", false, "find out berths that are broken on purpose")
	until  = flag.Bool("until-found", false, "end with the first violation")
)

// kinds are the kinds of locks to be simulated. What needs three nodes is left out on one.
func kinds() (all []string) {
	for _, k := range Kinds {
		if *kind == k || *kind == "" && (*nodes == 3 || !strings.HasPrefix(k, "quorum")) {
			all = append(all, k)
		}
	}
	return all
}

// simulate is Run, and the same for the same plan if this program was built for that.
func simulate(t *testing.T, p Plan) Result {
	t.Helper()
	cryptotest.SetGlobalRandom(t, p.Seed)
	if exact != nil {
		runtime.GC()
		exact(p.Seed)
	}
	return Run(t, p)
}

// TestSeeds simulates seeds in a program that is built for that. With -seed and -v it shows one history.
func TestSeeds(t *testing.T) {
	if exact == nil {
		binary := build(t, nil)
		for _, k := range kinds() {
			t.Run(k, func(t *testing.T) {
				t.Parallel()
				out, err := child(t, binary, passed("-kind="+k)...)
				if testing.Verbose() || err != nil {
					fmt.Print(out)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		return
	}
	for _, k := range kinds() {
		simulate(t, everything(Draw(0, k, *nodes)))
	}
	for _, k := range kinds() {
		if *one != 0 {
			showOne(t, k)
		} else {
			simulateAll(t, k)
		}
	}
}

// everything returns a plan in which each kind of fault comes, and what hardly ever does: what a program does only once is done after that.
func everything(p Plan) Plan {
	p.Faults = nil
	for i, k := range faults {
		if k.nodes <= p.Nodes {
			p.Faults = append(p.Faults, Fault{Name: k.name, Whom: []role{holder, successor}[i%2], After: 3 * time.Second,
				For: 3 * time.Second, Late: 2 * time.Second, Most: 2})
		}
	}
	d := drawer{r: rand.New(rand.NewPCG(p.Seed, 2)), p: p}
	for p.full() && len(p.Faults) < 2*len(faults) {
		p.Faults = append(p.Faults, d.rare()...)
	}
	return p
}

// passed returns the flags that a child gets as well, and others, which count more.
func passed(others ...string) []string {
	all := []string{"-test.run=^TestSeeds$", "-test.v=" + fmt.Sprint(testing.Verbose())}
	flag.Visit(func(f *flag.Flag) {
		if !strings.HasPrefix(f.Name, "test.") {
			all = append(all, "-"+f.Name+"="+f.Value.String())
		}
	})
	return append(all, others...)
}

func showOne(t *testing.T, kind string) {
	p := Draw(*one, kind, *nodes)
	if *small {
		runs := 0
		p = Shrink(p, func(p Plan) bool {
			runs++
			return len(simulate(t, p).History.Violations()) > 0
		})
		t.Logf("%d contenders and %d faults are left after %d simulations", len(p.Contenders), len(p.Faults), runs)
		for _, f := range p.Faults {
			t.Logf("after %s: %s", f.After, f)
		}
	}
	p.Verbose = testing.Verbose()
	r := simulate(t, p)
	_, _ = r.History.WriteTo(os.Stdout)
	for _, v := range r.History.Violations() {
		t.Errorf("%s, seed %d: %s", kind, *one, v)
	}
}

// most is how many violations are shown of a seed.
const most = 3

func simulateAll(t *testing.T, kind string) {
	began, windows, total := time.Now(), &history.Windows{}, tally{}
	for i := range *seeds {
		seed := *first + uint64(i)
		p := Draw(seed, kind, *nodes)
		p.Silent = !*sums
		r := simulate(t, p)
		windows.Add(r.History.Windows)
		total.add(r)
		if sum, notes := r.History.Sum(); *sums {
			fmt.Printf("%s, seed %d: %016x, %d notes\n", kind, seed, sum, notes)
		}
		for n, v := range r.History.Violations() {
			if n < most {
				t.Errorf("%s, seed %d: %s", kind, seed, v)
			}
		}
		if *until && t.Failed() {
			break
		}
	}
	took := time.Since(began)
	t.Logf("%s on %d nodes: %s in %s (%.1f a second)", kind, *nodes, total, took.Round(time.Millisecond),
		float64(total.seeds)/took.Seconds())
	if *table {
		aimed := slices.DeleteFunc(slices.Clone(steps), func(step string) bool { return !Draw(0, kind, *nodes).has(step) })
		windows.Print(os.Stdout, aimed)
	}
}

// tally is what some simulations come to.
type tally struct {
	seeds, commands, faults, failed int
	simulated                       time.Duration
}

func (t *tally) add(r Result) {
	commands, _ := r.History.Spans()
	t.seeds, t.commands, t.faults, t.simulated = t.seeds+1, t.commands+commands, t.faults+r.Faults, t.simulated+r.Took
	if len(r.History.Violations()) > 0 {
		t.failed++
	}
}

func (t tally) String() string {
	return fmt.Sprintf("%d seeds, %s simulated, %d commands, %d faults, %d seeds with violations", t.seeds,
		t.simulated.Round(time.Second), t.commands, t.faults, t.failed)
}

// A seed that fails is of use only if it fails again, whatever the program has simulated before it.
func TestSameSeedHasTheSameHistory(t *testing.T) {
	binary := build(t, nil)
	of := func(flags ...string) string {
		out, _ := child(t, binary, append([]string{"-test.run=^TestSeeds$", "-sums"}, flags...)...)
		return out
	}
	all := of("-first=12", "-seeds=2")
	for _, kind := range []string{"mutex", "tokens", "plain-mutex"} {
		sum, _, _ := strings.Cut(of("-first=13", "-seeds=1", "-kind="+kind), "\n")
		if !strings.HasPrefix(sum, kind+", seed 13: ") || !strings.Contains("\n"+all, "\n"+sum+"\n") {
			t.Errorf("alone it is\n%s\nand after others\n%s", sum, all)
		}
	}
}
