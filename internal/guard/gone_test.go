package guard

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/guard/guardtest"
	"berth/internal/guard/launch"
	"berth/internal/guard/wire"
	"berth/supervisor"
)

func TestDeadSupervisorsTreeIsKilled(t *testing.T) {
	withAndWithoutCgroup(t, func(t *testing.T) {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer read.Close()
		mark := guardtest.NewMark()
		env := append(os.Environ(), guardtest.RoleVar+"=supervisor", scriptVar+"="+guardtest.Forest,
			scriptVar+"_MARK="+mark)
		if !useCgroups {
			env = append(env, noCgroupVar+"=1")
		}
		process, err := os.StartProcess("/proc/self/exe", []string{"supervisor"}, &os.ProcAttr{
			Env: env, Files: []*os.File{nil, write, os.Stderr},
		})
		write.Close()
		if err != nil {
			t.Fatal(err)
		}
		line, _ := bufio.NewReader(read).ReadString('\n')
		number, group, _ := strings.Cut(strings.TrimSpace(line), " ")
		guard, err := strconv.Atoi(number)
		if err != nil {
			t.Errorf("the supervisor said %q", line)
		} else {
			guardtest.AwaitProcesses(t, mark, guardtest.ForestSize)
		}
		_ = process.Kill()
		_, _ = process.Wait()
		guardtest.AwaitProcesses(t, mark, 0)
		awaitNoCgroup(t, group)
		guardtest.Await(t, "the end of the guard", func() bool {
			status := guardtest.StatusOf(guard)
			return status == "" || strings.Contains(status, "State:\tZ")
		})
		_, _ = unix.Wait4(guard, nil, unix.WNOHANG, nil) // it may have fallen to us
	})
}

func TestDeadGuardsTreeIsKilled(t *testing.T) {
	withAndWithoutCgroup(t, func(t *testing.T) {
		tr := prepare(t, guardtest.Forest)
		tr.run()
		guardtest.AwaitProcesses(t, tr.mark, guardtest.ForestSize)
		if err := unix.Kill(tr.guard.pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		tr.orphansDie()
	})
}

// orphansDie expects what is told when the guard has died.
func (tr *command) orphansDie() {
	tr.t.Helper()
	if exited := tr.next(wire.Exited); !exited.Orphans || exited.Status.Signal() != unix.SIGKILL {
		tr.t.Errorf("the end of the first process is told as %+v", exited)
	}
	if dead := tr.next(wire.Dead); !dead.Orphans {
		tr.t.Errorf("the end of the tree is told as %+v", dead)
	}
	tr.nothingLeft()
	if _, open := <-tr.guard.Events(); open {
		tr.t.Error("something is told after the end")
	}
}

func TestGuardThatDiesAfterTheFirstProcessLeavesItsStatusAsItWas(t *testing.T) {
	tr := prepare(t, `setsid sleep 1000 & exit 7`)
	tr.run()
	if exited := tr.next(wire.Exited); exited.Status.ExitStatus() != 7 {
		t.Errorf("it is told as %+v", exited)
	}
	tr.guard.Abandon()
	tr.next(wire.Dead) // and not Exited once more
	tr.nothingLeft()
}

func TestFrozenGuardIsKilled(t *testing.T) {
	withAndWithoutCgroup(t, func(t *testing.T) {
		tr := prepare(t, guardtest.Forest)
		tr.run()
		guardtest.AwaitProcesses(t, tr.mark, guardtest.ForestSize)
		tr.freezeGuard()
		if err := tr.guard.Kill(); err != nil {
			t.Errorf("an order to a frozen guard: %v", err)
		}
		tr.next(wire.Silent)
		tr.orphansDie()
	})
}

func TestGuardThatDiesBeforeTheStartIsTold(t *testing.T) {
	tr := prepare(t, `exec sleep 1000`)
	if err := unix.Kill(tr.guard.pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for event := range tr.guard.Events() {
		t.Errorf("%+v is told, but nothing was started", event)
	}
	if err := tr.guard.Kill(); err == nil {
		t.Error("a dead guard takes orders")
	}
}

func TestWaitingGuardExecutesTheWillOfASupervisorThatIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		takenBack, executed bool
	}{
		"given":      {false, true},
		"taken back": {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			tr := prepare(t, `exec sleep 1000`)
			file := filepath.Join(t.TempDir(), "executed")
			if err := tr.guard.SetWill([]byte(file)); err != nil {
				t.Fatal(err)
			}
			if c.takenBack {
				if err := tr.guard.SetWill(nil); err != nil {
					t.Fatal(err)
				}
			}
			tr.guard.Retire() // closes the connection, as the supervisor's end would
			if _, err := os.Stat(file); (err == nil) != c.executed {
				t.Errorf("looking for what the will was to do: %v", err)
			}
		})
	}
}

// Whatever runs beside the command has a shared lock: here it is this process.
func TestWillWaitsForWhatRunsBesideTheCommand(t *testing.T) {
	tr := prepare(t, `exec sleep 1000`)
	file := filepath.Join(t.TempDir(), "executed")
	var opened [3]*os.File // of one directory, and each with a lock of its own
	dir := t.TempDir()
	for i := range opened {
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		opened[i] = f
	}
	beside, mark, late := opened[0], opened[1], opened[2]
	if err := unix.Flock(int(mark.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	tr.start(supervisor.Start{Will: []byte(file), Deadline: soon(), Beside: beside})
	tr.next(wire.Started)
	tr.next(wire.Overdue) // the supervisor is too late, as if it were stopped
	tr.next(wire.Exited)
	tr.next(wire.Dead)
	time.Sleep(100 * time.Millisecond)
	if guardtest.Exists(file) {
		t.Error("the will is executed while something runs beside the command")
	}
	mark.Close()
	guardtest.Await(t, "the will is executed", func() bool { return guardtest.Exists(file) })
	if err := unix.Flock(int(late.Fd()), unix.LOCK_SH|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("something may begin to run beside a command that is said to be dead: %v", err)
	}
}

func TestChildrenFromBeforeTheHostAreSpared(t *testing.T) {
	process := guardtest.Sleeper(t)
	t.Run("guard dies", func(t *testing.T) { // its Host is closed before the child is waited for
		tr := prepare(t, guardtest.Forest)
		tr.run()
		guardtest.AwaitProcesses(t, tr.mark, guardtest.ForestSize)
		tr.guard.Abandon()
		tr.orphansDie()
	})
	if status := guardtest.StatusOf(process.Pid); !strings.Contains(status, "State:\tS") {
		t.Errorf("the child that was there before is not alive: %q", status)
	}
}

func TestNextGuardIsSparedWhenThePreviousOneDies(t *testing.T) {
	tr := prepare(t, guardtest.Forest)
	tr.run()
	guardtest.AwaitProcesses(t, tr.mark, guardtest.ForestSize)
	next, err := tr.host.Launch(Spec{Path: "/bin/true", Args: []string{"true"}, Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	tr.guard.Abandon()
	tr.orphansDie()
	if err := next.Start(supervisor.Start{}); err != nil {
		t.Fatal(err)
	}
	var kinds []wire.Kind
	for event := range next.Events() {
		kinds = append(kinds, event.Kind)
		if event.Status != 0 || event.Orphans {
			t.Errorf("the next command ended as %+v", event)
		}
	}
	if len(kinds) != 4 {
		t.Errorf("the next guard told %q", kinds)
	}
}

// standIn has a program in the place of a guard, which has said something. What it would say it with stays open.
func standIn(t *testing.T, said wire.Event, program ...string) (host *Host, guard *Guard, theirs *wire.Conn) {
	t.Helper()
	host, err := NewHost()
	if err != nil {
		t.Fatal(err)
	}
	ours, fd, err := wire.Pair()
	if err != nil {
		t.Fatal(err)
	}
	if theirs, err = wire.Open(fd); err != nil {
		t.Fatal(err)
	}
	if err := theirs.Send(said, nil, time.Second); err != nil {
		t.Fatal(err)
	}
	guard = newGuard(host, &launch.Process{Conn: ours}, false)
	host.mu.Lock()
	defer host.mu.Unlock()
	if guard.pid, err = syscall.ForkExec(program[0], program, &syscall.ProcAttr{}); err != nil {
		t.Fatal(err)
	}
	host.guards[guard.pid] = guard
	return host, guard, theirs
}

func TestGuardThatIsStoppedAfterTheEndOfTheTreeDoesNotKeepBerth(t *testing.T) {
	host, guard, theirs := standIn(t, wire.Event{Kind: wire.Dead}, "/bin/sleep", "1000")
	defer theirs.Close()
	close(guard.started)
	host.running.Go(guard.run)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		host.Close()
	}()
	select {
	case <-closed:
	case <-time.After(guardtest.Patience):
		t.Error("berth waits for a guard that does not end")
		host.kill(guard)
		<-closed
	}
}

// sockets returns the numbers of the sockets that a process has open, by descriptor.
func sockets(t *testing.T, pid int) map[string]string {
	t.Helper()
	dir := "/proc/" + strconv.Itoa(pid) + "/fd/"
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, fd := range all {
		if link, _ := os.Readlink(dir + fd.Name()); strings.HasPrefix(link, "socket:") {
			found[fd.Name()] = link
		}
	}
	return found
}

func TestGuardDoesNotHaveTheConnectionOfAnother(t *testing.T) {
	t.Setenv("GORACE", "atexit_sleep_ms=0") // or each of them takes a second to end
	host, err := NewHost()
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	const launched = 40
	guards := make(chan supervisor.Guard, launched)
	for range launched {
		go func() {
			g, err := host.Launch(Spec{Path: "/bin/true", Args: []string{"true"}, Env: os.Environ()})
			if err != nil {
				t.Error(err)
			}
			guards <- g
		}()
	}
	var all []*Guard
	for range launched {
		if g, _ := (<-guards).(*Guard); g != nil {
			all = append(all, g)
			defer g.Retire()
		}
	}
	connections := map[string]int{}
	for _, g := range all {
		args, err := os.ReadFile("/proc/" + strconv.Itoa(g.pid) + "/cmdline")
		if err != nil {
			t.Fatal(err)
		}
		connections[sockets(t, g.pid)[strings.Split(string(args), "\x00")[1]]] = g.pid
	}
	for _, g := range all {
		for _, link := range sockets(t, g.pid) {
			if owner := connections[link]; owner != 0 && owner != g.pid {
				t.Errorf("guard %d has the connection of guard %d", g.pid, owner)
			}
		}
	}
}

// A process that was forked at the wrong moment may have it.
func TestEndOfAGuardIsSeenThoughItsConnectionIsOpenElsewhere(t *testing.T) {
	host, guard, elsewhere := standIn(t, wire.Event{Kind: wire.Started, Pid: 1}, "/bin/true")
	defer elsewhere.Close()
	<-guard.gone
	host.running.Go(guard.run)
	told := 0
	for end := time.After(guardtest.Patience); ; told++ {
		select {
		case _, open := <-guard.Events():
			if open {
				continue
			}
		case <-end:
			elsewhere.Close()
			t.Error("its end is not seen")
		}
		break
	}
	host.Close()
	if told != 1 {
		t.Errorf("%d events are told, not the one that it has sent", told)
	}
}
