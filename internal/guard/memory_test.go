package guard

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/guard/guardtest"
	"berth/internal/guard/wire"
)

// residentKiB returns how much memory a process has at the moment.
func residentKiB(t *testing.T, pid int) int {
	t.Helper()
	_, text, _ := strings.Cut(guardtest.StatusOf(pid), "VmRSS:")
	text, _, _ = strings.Cut(text, "kB")
	size, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// What the guard needs is missing to the command in a container with a limit, and to end the guard ends the command.
func TestGuardOfABigTreeStaysSmall(t *testing.T) {
	const processes, rounds, most = 200, 30, 64 << 10 // KiB; the race detector takes some times as much
	for name, burden := range map[string]func(g *Guard) error{
		"signals": func(g *Guard) error { return g.Signal(unix.SIGTERM, wire.Tree) },
		"freezes": func(g *Guard) error {
			if err := g.Freeze(); err != nil {
				return err
			}
			return g.Thaw()
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tr := prepare(t, fmt.Sprintf(`trap "" TERM
				i=1; while [ $i -lt %d ]; do sleep 1000 & i=$((i + 1)); done
				trap ': >%s/first' USR1; trap ': >%s/second' USR2; : >%s/ready
				while :; do wait; done`, processes, dir, dir, dir))
			tr.run()
			done := func(sig unix.Signal, file string) int { // orders are obeyed in turn
				if err := tr.guard.Signal(sig, wire.First); err != nil {
					t.Fatal(err)
				}
				guardtest.Await(t, file, func() bool { return guardtest.Exists(filepath.Join(dir, file)) })
				return residentKiB(t, tr.guard.pid)
			}
			guardtest.Await(t, "the tree", func() bool { return guardtest.Exists(filepath.Join(dir, "ready")) })
			before := done(unix.SIGUSR1, "first")
			for range rounds {
				if err := burden(tr.guard); err != nil {
					t.Fatal(err)
				}
			}
			after := done(unix.SIGUSR2, "second")
			if after-before > most {
				t.Errorf("%d times for %d processes have taken %d KiB", rounds, processes, after-before)
			}
		})
	}
}
