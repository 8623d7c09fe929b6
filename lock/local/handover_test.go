package local

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/lock"
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

// unlock does what a guard does when the tree is dead.
func unlock(t *testing.T, held lock.Held) {
	t.Helper()
	for _, file := range held.Handover().Files {
		must(t, unix.Flock(int(file.Fd()), unix.LOCK_UN))
		_ = unix.Ftruncate(int(file.Fd()), 0)
	}
}

func TestSlotThatAGuardHasUnlockedIsTheNextOnes(t *testing.T) {
	b := open(t, t.TempDir())
	b.looks = nil
	held := hold(t, b, mutex)
	must(t, held.Ready(t.Context()))
	l := contend(t, b, mutex)
	full(t, l)
	must(t, l.Wait(patience(t), time.Hour)) // over at once: nobody was watching before
	full(t, l)
	unlock(t, held)
	must(t, l.Wait(patience(t), time.Hour))
	next, err := obtain(patience(t), l)
	must(t, err)
	must(t, next.Ready(t.Context()))
	if next.Term() != held.Term()+1 {
		t.Errorf("the terms are %d and %d", held.Term(), next.Term())
	}
	if err := held.Ready(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("another start in it gives %v, want %v", err, lock.ErrLost)
	}
	must(t, held.Release(t.Context()))
	full(t, contend(t, b, mutex))
	must(t, next.Verify(t.Context()))
}

func TestSlotThatAGuardHasUnlockedCanBeUsedAgain(t *testing.T) {
	b := open(t, t.TempDir())
	held := hold(t, b, mutex)
	must(t, held.Ready(t.Context()))
	unlock(t, held)
	must(t, held.Ready(t.Context())) // of the guard that takes the place of one that was killed
	full(t, contend(t, b, mutex))
	must(t, held.Release(t.Context()))
	must(t, hold(t, b, mutex).Release(t.Context()))
}
