package measure

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestStampWritesWhenItLived(t *testing.T) {
	dir := t.TempDir()
	stamp, err := BuildStamp(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "stamps")
	if all, err := ReadStamps(file); err != nil || len(all) != 0 {
		t.Errorf("before it has run there is %v: %v", all, err)
	}
	before := Now()
	var pids []int
	for _, args := range [][]string{{file, "30"}, {file}} {
		cmd := exec.CommandContext(t.Context(), stamp, args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", cmd, err, out)
		}
		pids = append(pids, cmd.Process.Pid)
	}
	after := Now()
	all, err := ReadStamps(file)
	if err != nil || len(all) != 2 {
		t.Fatalf("two runs have written %v: %v", all, err)
	}
	first, second := all[0], all[1]
	if first.Start < before || first.End-first.Start < int64(30*time.Millisecond) ||
		second.Start < first.End || second.Start > after {
		t.Errorf("%+v is not from %d to %d with 30 ms in the first", all, before, after)
	}
	if second.End != 0 || first.PID != pids[0] || second.PID != pids[1] {
		t.Errorf("%+v are not of processes %v, the second without an end", all, pids)
	}
}

func TestStampsThatAreNoneAreRefused(t *testing.T) {
	for _, text := range []string{"end 5 1\n", "start 5 1\nend 6 2\n", "start 5\n", "begin 5 1\n"} {
		file := filepath.Join(t.TempDir(), "stamps")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if all, err := ReadStamps(file); err == nil {
			t.Errorf("%q is read as %+v", text, all)
		}
	}
}
