package logging

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/internal/tty"
)

// isJournal reports whether this is standard error as systemd has connected it to its journal: then JOURNAL_STREAM
// names its device and inode (systemd.exec(5)).
func isJournal(w io.Writer) bool {
	if through, ok := w.(tty.Writer); ok {
		w = through.W
	}
	file, ok := w.(*os.File)
	stream := os.Getenv("JOURNAL_STREAM")
	var stat unix.Stat_t
	return ok && stream != "" && unix.Fstat(int(file.Fd()), &stat) == nil &&
		stream == fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}

// withPriority has every line of an entry begin with its priority, as the journal reads it (sd-daemon(3)).
func withPriority(level hclog.Level, entry []byte) (lines []byte) {
	priority := "<7>"
	switch level {
	case hclog.Error:
		priority = "<3>"
	case hclog.Warn:
		priority = "<4>"
	case hclog.Info:
		priority = "<6>"
	}
	for line := range bytes.Lines(entry) {
		lines = append(append(lines, priority...), line...)
	}
	return lines
}
