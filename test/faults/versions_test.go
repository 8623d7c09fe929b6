package faults

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"berth/prover/history"
	"berth/test/broken"
	"berth/test/simulation/overlay"
)

// before is the last version whose records do not say from whom they are; FAULTS_OLD names another commit.
const before = "e5cb8ac"

// ofShortLeases waits for no longer than these holders may live where a ledger does not say who may: 2 min a handover from
// a berth of before would take hours.
var ofShortLeases = broken.Berth{Name: "it knows short leases alone", Changes: []overlay.Change{{
	File: "lock/rabbit/ledger/record.go", Old: "MaxLease = 2 * time.Minute", New: "MaxLease = 2 * time.Second",
}}}

// A fleet is upgraded one by one: berths of before contend beside those of now, and holders end in every way. A handover
// may take the longest lease.
func TestVersionsBesideEachOtherDoNotOverlap(t *testing.T) {
	const handovers = 10 // in each round
	latest := built(t, ofShortLeases)
	old := buildCommit(t, cmp.Or(os.Getenv("FAULTS_OLD"), before))
	r := results.row("versions beside each other: ten handovers", 4)
	for range rounds {
		t.Run("", func(t *testing.T) {
			s := open(t, rabbit, stage{contenders: 4, flags: short, every: []string{latest, old}})
			at := history.Now()
			for range handovers {
				for len(s.living()) < s.stage.contenders {
					s.join()
				}
				began, c := history.Now(), s.running()
				heal := func() {}
				switch rand.N(6) {
				case 0:
					c.signal(syscall.SIGTERM)
				case 1: // its command lives until its deadline
					c.relay.down()
					heal = c.relay.heal
				case 2: // it has its slot back, from the contender about to take it
					before := c.logged("slot reclaimed")
					c.relay.reset()
					s.await("it has its slot back, or another has it",
						func() bool { return c.logged("slot reclaimed") > before || s.nextRuns(began) })
					c = s.running()
					c.signal(syscall.SIGTERM)
				case 3:
					if guard := c.guard(); guard != 0 { // nobody publishes the release
						_ = syscall.Kill(guard, syscall.SIGSTOP)
					}
					c.signal(syscall.SIGKILL)
					for _, pid := range c.marked() {
						_ = syscall.Kill(pid, syscall.SIGKILL)
					}
				case 4:
					c.relay.reset()
					c.signal(syscall.SIGKILL)
				default:
					c.signal(syscall.SIGKILL)
				}
				s.await("the next command runs", func() bool { return s.nextRuns(began) })
				heal()
			}
			ended := history.Now()
			v := s.end()
			clean(t, v)
			r.add(v, at, ended)
			t.Logf("%d commands were run", len(v.Runs))
		})
	}
}

// buildCommit builds the berth of another commit.
func buildCommit(t *testing.T, commit string) (berth string) {
	t.Helper()
	dir := t.TempDir()
	get := fmt.Sprintf("git -C ../.. archive %s | tar -x -C %s", commit, dir)
	if out, err := exec.Command("bash", "-c", "set -o pipefail; "+get).CombinedOutput(); err != nil {
		t.Fatalf("cannot get the berth of %s; a clone without history lacks it (git fetch --unshallow): %v: %s", commit, err, out)
	}
	berth = filepath.Join(t.TempDir(), "berth-"+commit)
	if err := build(dir, ".", berth); err != nil {
		t.Fatal(err)
	}
	return berth
}
