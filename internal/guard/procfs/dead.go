package procfs

import (
	"bytes"
	"maps"
	"strconv"
	"strings"
)

// AllDead reports whether a process has children, none of which lives: a tracer keeps
// them from being reaped (ptrace(2)). It returns one of them. Nothing lives below them
// then if what loses its parent falls to that process. What somebody forked during the
// first look shows in the second. Those in except do not count.
func (e *Env) AllDead(parent int, except Set) (one int, dead bool) {
	first, dead := e.deadChildren(parent, except)
	if !dead || len(first) == 0 {
		return 0, false
	}
	second, dead := e.deadChildren(parent, except)
	for one = range second {
		break
	}
	return one, dead && maps.Equal(first, second)
}

// deadChildren returns the children of a process, unless one of them lives, or may.
func (e *Env) deadChildren(parent int, except Set) (found Set, dead bool) {
	found = make(Set)
	for _, pid := range e.Children(parent) {
		p, err := Read(pid)
		switch {
		case err == nil && except.Has(p), err != nil && except.Has(Process{Pid: pid}):
		case err != nil || !e.threadsDead(p):
			return nil, false
		default:
			found.Add(p)
		}
	}
	return found, true
}

// threadsDead reports whether no thread of a process runs any more. Who traces it can keep each.
func (e *Env) threadsDead(p Process) bool {
	dir := "/proc/" + strconv.Itoa(p.Pid) + "/task"
	threads, err := e.ReadNames(dir)
	for _, thread := range threads {
		dead := false
		_ = ReadFile(dir+"/"+thread+"/stat", func(stat []byte) {
			state := bytes.TrimSpace(stat[bytes.LastIndexByte(stat, ')')+1:])
			dead = len(state) > 0 && (state[0] == 'Z' || state[0] == 'X')
		})
		if !dead {
			return false
		}
	}
	return err == nil && len(threads) > 0
}

// Describe says of a process what its end depends on: its name, its state, in which function
// of the kernel it waits, as far as that tells, and who traces it.
func Describe(pid int) string {
	dir := "/proc/" + strconv.Itoa(pid)
	var name, state, tracer string
	_ = eachField(dir+"/status", func(field, value []byte) {
		switch text := string(value); {
		case string(field) == "Name":
			name = text
		case string(field) == "State" && text != "":
			state = ", state " + text[:1]
		case string(field) == "TracerPid" && text != "0":
			tracer = ", traced by process " + text
		}
	})
	_ = ReadFile(dir+"/wchan", func(text []byte) {
		if where := strings.Trim(string(text), "0\n"); where != "" { // 0: it runs, or may not be looked into
			state += " in " + where
		}
	})
	return name + state + tracer
}
