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
	for name, milliseconds := range map[string][]string{"ends at once": nil, "runs on": {"30"}} {
		file := filepath.Join(dir, name)
		if s, err := ReadStamps(file); err != nil || s != (Stamps{}) {
			t.Errorf("%s: before it has run there is %+v: %v", name, s, err)
		}
		before := Now()
		cmd := exec.CommandContext(t.Context(), stamp, append([]string{file}, milliseconds...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", cmd, err, out)
		}
		s, err := ReadStamps(file)
		if err != nil || s.Start < before || s.Start > Now() || s.PID != cmd.Process.Pid {
			t.Errorf("%s: process %d began after %d and has written %+v: %v", name, cmd.Process.Pid, before, s, err)
		}
		if milliseconds == nil && s.End != 0 || milliseconds != nil && s.End-s.Start < int64(30*time.Millisecond) {
			t.Errorf("%s: it ended at %d", name, s.End)
		}
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
