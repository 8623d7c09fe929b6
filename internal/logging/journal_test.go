package logging

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/config"
	"berth/internal/tty"
)

func TestJournalGetsPrioritiesAndKeepsTheTime(t *testing.T) {
	for name, c := range map[string]struct {
		inode uint64 // more than that of standard error
		want  string
	}{
		"the journal": {0, "<3>[ERROR] berth: one\n<4>[WARN]  berth: two\n" +
			"<6>[INFO]  berth: three\n<7>[DEBUG] berth: four\n<3>the last\n"},
		"somewhere else": {1, "the last\n"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			file, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			var stat unix.Stat_t
			if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
				t.Fatal(err)
			}
			t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", stat.Dev, stat.Ino+c.inode))
			before := os.Stderr
			os.Stderr = file
			defer func() { os.Stderr = before }()
			if c.inode == 0 {
				log, flush := New(config.Connection{LogLevel: "debug"})
				log.Error("one")
				log.Warn("two")
				log.Info("three")
				log.Debug("four")
				log.Trace("not this")
				flush()
			}
			Last(tty.Writer{W: file}, "the last")
			if got, _ := os.ReadFile(path); string(got) != c.want {
				t.Errorf("it has %q, want %q", got, c.want)
			}
		})
	}
}
