package process

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"berth/internal/boottime"
	"berth/internal/guard/procfs"
	"berth/internal/guard/terminal"
	"berth/internal/guard/tree"
	"berth/internal/guard/wire"
)

// prepare returns a guard without a command, and the connection of its supervisor.
func prepare(t *testing.T) (*guard, *wire.Conn) {
	t.Helper()
	ours, fd, err := wire.Pair()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := wire.Open(fd)
	if err != nil {
		t.Fatal(err)
	}
	timer, err := boottime.NewTimer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ours.Close()
		theirs.Close()
		timer.Close()
	})
	return &guard{
		supervisor: &supervisor{conn: theirs}, terminal: &terminal.Terminal{}, timer: timer,
		tree: &tree.Tree{Env: procfs.Kernel()}, forker: newForker(wire.Command{}),
	}, ours
}

// expect fails unless the supervisor is told of these events next.
func expect(t *testing.T, conn *wire.Conn, kinds ...wire.Kind) {
	t.Helper()
	for _, want := range kinds {
		var got wire.Event
		if _, err := conn.Receive(&got); err != nil || got.Kind != want {
			t.Fatalf("%+v is told, error %v; want %s", got, err, want)
		}
	}
}

// A directory on a file system that does not answer, for example.
func TestGuardDoesNotWaitForAStartThatHasForkedNothing(t *testing.T) {
	g, conn := prepare(t)
	g.fork()
	g.kill()
	expect(t, conn, wire.Started, wire.Exited)
	if g.phase != over {
		t.Error("the guard goes on")
	}
	if g.forker.decide() {
		t.Error("the command could still be forked")
	}
	g.noteForked(forked{err: errTooLate}) // of the thread, much later
}

// A supervisor whose guard dies has to know whether the command may have run.
func TestSupervisorIsToldBeforeTheCommandCanRun(t *testing.T) {
	g, conn := prepare(t)
	g.start(wire.Order{Op: wire.OpStart, Deadline: boottime.Now().Add(time.Hour)}) // which no thread takes here
	expect(t, conn, wire.Accepted)
}

func TestNothingIsStartedOfWhichTheSupervisorCannotBeTold(t *testing.T) {
	g, conn := prepare(t)
	conn.Close()
	g.start(wire.Order{Op: wire.OpStart, Deadline: boottime.Now().Add(time.Hour)})
	if g.phase != over || g.forker.decide() {
		t.Error("the command can be forked")
	}
}

func TestNothingIsStartedWithADeadlineThatCannotBeKept(t *testing.T) {
	g, conn := prepare(t)
	timer, err := boottime.NewTimer()
	if err != nil {
		t.Fatal(err)
	}
	timer.Close()
	g.timer = timer
	g.start(wire.Order{Op: wire.OpStart, Deadline: boottime.Now().Add(time.Hour)})
	expect(t, conn, wire.Accepted, wire.NotStarted, wire.Dead)
}

// The directory may be on a network file system that has gone, and come back.
func TestNothingIsForkedThatIsToBeDeadByNow(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("/") // as a guard
	late := newForker(wire.Command{Dir: here, Path: "/bin/true", Args: []string{"true"}})
	late.requests <- &syscall.ProcAttr{} // about which the guard has decided
	close(late.requests)
	go late.run(func() {})
	f := <-late.results
	if !errors.Is(f.err, errTooLate) || f.pid != 0 {
		t.Fatalf("%+v", f)
	}
	g, conn := prepare(t)
	g.phase, g.killing = forking, true
	g.noteForked(f)
	expect(t, conn, wire.Started, wire.Exited)
	if g.phase != over {
		t.Error("the guard goes on")
	}
}

func TestGuardIsNotToBeStartedByHand(t *testing.T) {
	for _, args := range [][]string{
		{wire.Name},
		{wire.Name, "x", "", "-", "-", "-", "0", "", "-", "", "", "/bin/true", "true"},
		{wire.Name, "0", "", "root", "-", "-", "0", "", "-", "", "", "/bin/true", "true"},
		{wire.Name, "0", "", "-", "elsewhere", "-", "0", "", "-", "", "", "/bin/true", "true"},
		{wire.Name, "0", "", "-", "-", "-", "mask", "", "-", "", "", "/bin/true", "true"},
		{wire.Name, "0", "", "-", "-", "-", "0", "", "-", "everything", "", "/bin/true", "true"},
	} {
		if status, will := Main(args); status != 64 || will != nil {
			t.Errorf("%q ends with %d", args, status)
		}
	}
}
