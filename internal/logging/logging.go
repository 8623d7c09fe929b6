// Package logging writes berth's log to stderr and never keeps its callers waiting: a
// stderr that nobody reads must not keep the supervisor from its slot.
//
//	log, flush := logging.New(cfg)
//	defer flush()
package logging

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/config"
	"berth/internal/tty"
)

const (
	// room is how many lines may wait to be written. It is what berth logs in
	// hours, or in a second at the level trace.
	room = 1000
	// lastWait bounds how long the last lines are waited for at the end.
	lastWait = time.Second
)

// New returns the logger that the configuration asks for, and what is to
// be called at the end. Log lines go to stderr, because stdout belongs to the
// command and to results.
func New(cfg config.Connection) (log hclog.Logger, flush func()) {
	json, journal := cfg.LogFormat == "json", isJournal(os.Stderr)
	out := newBackground(tty.Writer{W: os.Stderr}, json)
	out.journal = journal
	return hclog.New(&hclog.LoggerOptions{
		Name:        "berth",
		Level:       hclog.LevelFromString(cfg.LogLevel),
		Output:      out,
		JSONFormat:  json,
		DisableTime: journal && !json,
	}), out.close
}

// OneLine keeps a message to one line, whatever it quotes. Spaces stay: they may
// belong to a name in a command line that is to be pasted.
func OneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), " ")
}

// Last writes berth's last line, which like the others must not keep it from
// ending, and waits for it for a second at most.
func Last(w io.Writer, line string) {
	if isJournal(w) {
		line = string(withPriority(hclog.Error, []byte(line)))
	}
	said := make(chan struct{})
	go func() {
		defer close(said)
		fmt.Fprintln(w, line)
	}()
	select {
	case <-said:
	case <-time.After(lastWait):
	}
}

// background writes without keeping its caller: a full pipe, for example, must not
// keep the supervisor from verifying its slot. Lines that find no room are dropped
// and counted.
type background struct {
	lines   chan []byte
	stop    chan struct{} // closed by close
	done    chan struct{} // closed when all is written
	dropped atomic.Int64
	missing string // format of the line that tells how many were dropped
	journal bool   // each line begins with its priority
}

func newBackground(w io.Writer, json bool) *background {
	b := &background{
		lines:   make(chan []byte, room),
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
		missing: "berth: %d log lines are missing here, because stderr was not read in time\n",
	}
	if json {
		b.missing = `{"@level":"warn","@message":"log lines are missing here, because stderr was not read in time",` +
			`"lines":%d}` + "\n"
	}
	go b.run(w)
	return b
}

func (b *background) run(w io.Writer) {
	defer close(b.done)
	for {
		select {
		case line := <-b.lines:
			b.put(w, line)
		case <-b.stop:
			b.putRest(w)
			return
		}
	}
}

// putRest writes what waits. Nothing is logged after close.
func (b *background) putRest(w io.Writer) {
	for {
		select {
		case line := <-b.lines:
			b.put(w, line)
		default:
			return
		}
	}
}

func (b *background) put(w io.Writer, line []byte) {
	_, _ = w.Write(line) // there is nowhere to complain
	if n := b.dropped.Swap(0); n > 0 {
		line = fmt.Appendf(nil, b.missing, n)
		if b.journal {
			line = withPriority(hclog.Warn, line)
		}
		_, _ = w.Write(line)
	}
}

// Write implements io.Writer. It never fails and never waits.
func (b *background) Write(line []byte) (int, error) {
	select {
	case b.lines <- append([]byte(nil), line...):
	default:
		b.dropped.Add(1)
	}
	return len(line), nil
}

// LevelWrite implements hclog.LevelWriter.
func (b *background) LevelWrite(level hclog.Level, line []byte) (int, error) {
	if b.journal {
		line = withPriority(level, line)
	}
	return b.Write(line)
}

// close waits until everything is written, but not for ever.
func (b *background) close() {
	close(b.stop)
	select {
	case <-b.done:
	case <-time.After(lastWait):
	}
}
