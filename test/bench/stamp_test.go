package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestStampWritesWhenItLived(t *testing.T) {
	dir := t.TempDir()
	stamp, err := buildStamp(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "stamps")
	if all, err := readStamps(file); err != nil || len(all) != 0 {
		t.Errorf("before it has run there is %v: %v", all, err)
	}
	before := now()
	var pids []int
	for _, args := range [][]string{{file, "30"}, {file}} {
		cmd := exec.CommandContext(t.Context(), stamp, args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", cmd, err, out)
		}
		pids = append(pids, cmd.Process.Pid)
	}
	after := now()
	all, err := readStamps(file)
	if err != nil || len(all) != 2 {
		t.Fatalf("two runs have written %v: %v", all, err)
	}
	first, second := all[0], all[1]
	if first.start < before || first.end-first.start < int64(30*time.Millisecond) || second.start < first.end || second.start > after {
		t.Errorf("%+v is not from %d to %d with 30 ms in the first", all, before, after)
	}
	if second.end != 0 || first.pid != pids[0] || second.pid != pids[1] {
		t.Errorf("%+v are not of processes %v, the second without an end", all, pids)
	}
}

func TestStampsThatAreNoneAreRefused(t *testing.T) {
	for _, text := range []string{"end 5 1\n", "start 5 1\nend 6 2\n", "start 5\n", "begin 5 1\n"} {
		file := filepath.Join(t.TempDir(), "stamps")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if all, err := readStamps(file); err == nil {
			t.Errorf("%q is read as %+v", text, all)
		}
	}
}

func TestDescendantsAreFound(t *testing.T) {
	p, err := spawn(exec.Command("sh", "-c", "sh -c 'sleep 60; :' & wait"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.end()
	var sleeper []int
	for end := time.Now().Add(20 * time.Second); len(sleeper) == 0 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, pid := range descendants(p.Process.Pid) {
			if strings.HasSuffix(executable(pid), "/sleep") {
				sleeper = append(sleeper, pid)
			}
		}
	}
	if len(sleeper) != 1 {
		t.Fatalf("two levels below there are %v", sleeper)
	}
	for _, pid := range descendants(p.Process.Pid) {
		if one, err := os.FindProcess(pid); err == nil {
			_ = one.Kill()
		}
	}
	if err := p.await(t.Context(), 20*time.Second); err != nil {
		t.Error(err)
	}
}
