//go:build simulation

package simulation

import (
	"flag"
	"fmt"
	"regexp"
	"testing"

	"berth/test/broken"
)

var tried = flag.Int("tried", 1000, "with -mutants: within how many `seeds` one has to be found out")

// A simulation that finds nothing proves something only if it finds what is there.
func TestBrokenBerthIsFoundOut(t *testing.T) {
	if !*mutant {
		t.Skip("it takes minutes: see -mutants")
	}
	simulated := regexp.MustCompile(`(\d+) seeds, .* (\d+) seeds with violations`)
	for _, b := range broken.All {
		if b.Simulated == "" {
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			changes, err := b.In("../..")
			if err != nil {
				t.Fatal(err)
			}
			out, err := child(t, build(t, changes), "-test.run=^TestSeeds$", "-test.v", "-until-found", fmt.Sprint("-seeds=", *tried),
				"-kind="+b.Simulated, fmt.Sprint("-nodes=", max(1, b.Nodes)))
			found := simulated.FindStringSubmatch(out)
			switch {
			case found == nil:
				t.Fatalf("it was not simulated:\n%s", out)
			case err == nil && b.Harmless == "":
				t.Errorf("it is not found out by %s seeds", found[1])
			case err == nil:
				t.Logf("it is not found out by %s seeds: %s", found[1], b.Harmless)
			case b.Harmless != "":
				t.Errorf("it took %s seeds to find it out, so it is not harmless\n%s", found[1], out)
			default:
				t.Logf("it took %s seeds to find it out\n%s", found[1], out)
			}
		})
	}
}
