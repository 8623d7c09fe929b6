package local

import (
	"bufio"
	"os"
	"os/exec"
	"testing"
	"time"
)

// killedHolder returns after a process that held the mutex, and had started a
// keeper, was killed. Closing what it returns ends the keeper.
func killedHolder(t *testing.T, role, dir string) *os.File {
	t.Helper()
	input, end, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { _ = end.Close() })
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, dirVariable+"="+dir)
	cmd.Stdin = input
	output, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	must(t, input.Close())
	line, err := bufio.NewReader(output).ReadString('\n')
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	if err != nil || line != "holding\n" {
		t.Fatalf("the holder says %q, %v", line, err)
	}
	return end
}

func TestSlotOutlivesAKilledHolderUntilTheHandoverIsClosed(t *testing.T) {
	b := open(t, t.TempDir())
	end := killedHolder(t, "holder with handover", b.dir)
	l := contend(t, b, mutex)
	full(t, l)
	must(t, end.Close())
	_, err := obtain(patience(t), l)
	must(t, err)
}

func TestSlotOfAKilledHolderIsNotKeptByItsOtherChildren(t *testing.T) {
	b := open(t, t.TempDir())
	killedHolder(t, "holder", b.dir)
	_, err := obtain(patience(t), contend(t, b, mutex))
	must(t, err)
}

func TestReleaseFreesTheSlotWhoeverHasACopy(t *testing.T) {
	b := open(t, t.TempDir())
	b.looks = nil // who waits is told of it, although a copy stays open
	held := hold(t, b, mutex)
	l := contend(t, b, mutex)
	full(t, l)
	input, end, err := os.Pipe()
	must(t, err)
	keeper := exec.Command(os.Args[0])
	keeper.Env = append(os.Environ(), roleVariable+"=keeper")
	keeper.Stdin, keeper.ExtraFiles = input, held.Handover().Files
	must(t, keeper.Start())
	must(t, input.Close())
	defer func() {
		_ = end.Close()
		must(t, keeper.Wait())
	}()
	must(t, held.Release(t.Context()))
	must(t, l.Wait(patience(t), time.Hour))
	_, err = obtain(patience(t), l)
	must(t, err)
}
