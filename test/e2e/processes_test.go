package e2e

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// process is one process of a tree.
type process struct {
	pid, parent int
	state       string // one letter, see proc_pid_stat(5)
	args        []string
}

// guardName is argv[0] of a guard.
const guardName = "berth-guard"

// marked returns the processes with a mark: berth, its guard, and all that is
// or was below them. What is dead and not waited for has no environment any
// more and is not among them.
func marked(mark string) []process {
	var found []process
	variable := []byte("\x00" + markVariable + "=" + mark + "\x00")
	all, _ := os.ReadDir("/proc")
	var env []byte // 0, and an environment
	for _, entry := range all {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if env = appendFile(append(env[:0], 0), "/proc/"+entry.Name()+"/environ"); !bytes.Contains(env, variable) {
			continue
		}
		if p, alive := inspect(pid); alive {
			found = append(found, p)
		}
	}
	return found
}

// appendFile appends what can be read of a file, of which there are many to be read
// again and again: what package os does beyond this takes most of the time.
func appendFile(text []byte, path string) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return text
	}
	defer unix.Close(fd)
	for {
		text = slices.Grow(text, 4096)
		n, err := unix.Read(fd, text[len(text):cap(text)])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return text
		}
		text = text[:len(text)+n]
	}
}

// inspect reads what /proc says about a process. It reports false for one that
// is gone or a zombie.
func inspect(pid int) (process, bool) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	stat := read(dir + "stat")
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(fields) < 2 || fields[0] == "Z" || fields[0] == "X" {
		return process{}, false
	}
	parent, _ := strconv.Atoi(fields[1])
	args := strings.Split(strings.TrimSuffix(read(dir+"cmdline"), "\x00"), "\x00")
	return process{pid, parent, fields[0], args}, true
}

// command returns the live processes of the command, however deep: all that are
// neither berth nor its guard, nor about to become a guard: a fork of berth that
// has not executed it yet.
func (b *berth) command() []process {
	return slices.DeleteFunc(marked(b.mark), func(p process) bool {
		return p.pid == b.pid() || p.args[0] == guardName || p.parent == b.pid() && slices.Equal(p.args, b.cmd.Args)
	})
}

// wholeTree returns the processes of the command tree, once each of them can be
// seen: one that is just executing its program has no environment.
func (b *berth) wholeTree() []process {
	b.t.Helper()
	var all []process
	until(b.t, "every process of the tree", func() bool {
		all = b.command()
		return len(all) == treeSize
	})
	return all
}

// guardPID returns the number of the guard's process.
func (b *berth) guardPID() int {
	b.t.Helper()
	for _, p := range marked(b.mark) {
		if p.args[0] == guardName && p.parent == b.pid() {
			return p.pid
		}
	}
	b.t.Fatal("there is no guard")
	return 0
}

// commandPID returns the number of the command's first process, as logged at
// the start of its latest run.
func (b *berth) commandPID() int {
	b.t.Helper()
	found := b.logged("command ended")
	found = b.awaitLogs(len(found)+1, "command started")
	pid, err := strconv.Atoi(found[len(found)-1].text("pid"))
	if err != nil {
		b.t.Fatalf("the log has no pid: %v", found)
	}
	return pid
}

// wantNothingLeft waits until nothing below berth is left, and berth is not
// either.
func (b *berth) wantNothingLeft() {
	b.t.Helper()
	b.awaitNone("process of berth or the command", func() []process { return marked(b.mark) })
}

// wantNoCommand waits until no process of the command is left, while berth and
// its guard may be.
func (b *berth) wantNoCommand() {
	b.t.Helper()
	b.awaitNone("process of the command", b.command)
}

// awaitNone waits until a list of processes has been empty twice in a row: one
// that was just forking or executing can be overlooked once.
func (b *berth) awaitNone(what string, list func() []process) {
	b.t.Helper()
	var left []process
	until(b.t, "the end of the last "+what, func() bool {
		if left = list(); len(left) > 0 {
			return false
		}
		left = list()
		return len(left) == 0
	}, func() string { return fmt.Sprintf("left are %v", left) })
}
