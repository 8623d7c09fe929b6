package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
)

// atOnce is how many berths the tests in this file run beside each other.
const atOnce = 4

// eachAtOnce calls f with 0..n-1, a few at a time.
func eachAtOnce(n int, f func(i int)) {
	var group sync.WaitGroup
	turn := make(chan struct{}, atOnce)
	for i := range n {
		turn <- struct{}{}
		group.Go(func() {
			defer func() { <-turn }()
			f(i)
		})
	}
	group.Wait()
}

// Those that mean something to berth or to a shell, and some more; package
// supervisor tests all 256.
func TestExitStatusOfTheCommandIsBerths(t *testing.T) {
	t.Parallel()
	c := onHost.contest(t, "mutex")
	statuses := []int{0, 1, 2, 63, 64, 69, 75, 76, 77, 78, 125, 126, 127, 128, 129, 137, 143, 159, 192, 254, 255}
	eachAtOnce(len(statuses), func(i int) {
		c.run(fmt.Sprintf("exit %d", statuses[i])).wantStatus(statuses[i])
	})
}

// harmless are signals that do not end a process which leaves them alone.
var harmless = []syscall.Signal{
	syscall.SIGCHLD, syscall.SIGCONT, syscall.SIGURG, syscall.SIGWINCH,
	syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
}

func TestEverySignalThatEndsTheCommandIsInBerthsStatus(t *testing.T) {
	t.Parallel()
	c := onHost.contest(t, "mutex")
	eachAtOnce(31, func(i int) {
		sig := syscall.Signal(i + 1)
		if !slices.Contains(harmless, sig) {
			c.run(fmt.Sprintf("ulimit -c 0; kill -%d $$; exit 1", sig)).wantStatus(128 + int(sig))
		}
	})
}

func TestStatusIsTheFirstProcessesWhateverItsChildrenEndWith(t *testing.T) {
	t.Parallel()
	c := onHost.contest(t, "mutex")
	b := c.run(`sh -c 'kill -SEGV $$'; (sleep 1000; exit 5) & exit 9`, quickStop)
	b.wantStatus(9)
	b.wantNothingLeft()
}

func TestCommandThatCannotBeStartedEndsWith126Or127(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for command, status := range map[string]int{
		filepath.Join(dir, "none"):                              127,
		"no-such-command-anywhere":                              127,
		write("interpreter", "#!/no/such/interpreter\n", 0o755): 127,
		write("plain", "text\n", 0o644):                         126,
		write("garbage", "\x7fELF nonsense", 0o755):             126,
		write("below", "", 0o644) + "/a":                        127,
		dir:                                                     126,
	} {
		c := onHost.contest(t, "mutex")
		args := append([]string{"run", "--mutex", c.name}, c.flags...)
		b := start(t, append(args, "--", command)...)
		if got := b.status(); got != status {
			t.Errorf("%s: ended with %d, not %d", command, got, status)
		}
		b.wantNothingLeft()
		c.wantFree()
	}
}
