// Package witness is the command that runs under a lock that is looked at. About every millisecond it writes down that it
// lives, into a file of its own in the directory WITNESS_DIR: first the beginning of its history.Event of kind "life" in
// JSON, then a line for each sign of life, nanoseconds on CLOCK_BOOTTIME, and what it has just written to the register that
// the lock protects, and a last line once it has worked until its end. [Read] makes a history of them.
//
// Its environment tells it what it is:
//
//	WITNESS_CLIENT          whose command it is
//	WITNESS_MODE            plain     it ends on TERM
//	                        stubborn  it ignores everything that can be ignored
//	                        forking   stubborn, and two chains of processes beside it, each in a session of its own, each
//	                                  process starting the next one and ending
//	WITNESS_FOR             how long it works, such as 300ms; the chains go on. Default: until WITNESS_UNTIL
//	WITNESS_STATUS          the exit status it ends with then; 0 by default
//	WITNESS_UNTIL           when all ends, whatever happens, so that a broken lock leaves nothing behind for ever
//	WITNESS_REGISTER        the directory of the register, if there is any: every 20 ms it writes there the number that
//	                        follows the one it has read. Chains do not.
//	WITNESS_SLOT_VARIABLE   the variables with slot and term: BERTH_SLOT and BERTH_TERM by default. A command need not be
//	WITNESS_TERM_VARIABLE   told either.
//
// Each witness is a run of its own, with its chains: what the lock tells may be wrong.
package witness

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"berth/prover/history"
)

// Name is what the program has to be called as to be a witness.
const Name = "witness"

const (
	chains = 2                     // how many processes a forking witness has beside it
	link   = 40 * time.Millisecond // how long each of them lives

	linkVariable = "WITNESS_LINK" // the run, for a process of a chain

	worked = "worked" // the last line of a command that was not ended before
)

// Called reports whether this process is a witness.
func Called() bool { return filepath.Base(os.Args[0]) == Name }

// Is reports whether a process is a witness, by what it was called as.
func Is(pid int) bool {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // "": it is gone
	name, _, _ := strings.Cut(string(line), "\x00")
	return filepath.Base(name) == Name
}

// Main lives, and returns the exit status.
func Main() int {
	life, err := begin()
	if err == nil {
		err = run(life)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "witness:", err)
		return 1
	}
	return life.Status
}

func run(life history.Event) error {
	until, err := strconv.ParseInt(os.Getenv("WITNESS_UNTIL"), 10, 64)
	if err != nil {
		return fmt.Errorf("cannot read WITNESS_UNTIL: %w", err)
	}
	work := time.Duration(until - life.At)
	if text := os.Getenv("WITNESS_FOR"); text != "" {
		if work, err = time.ParseDuration(text); err != nil {
			return fmt.Errorf("cannot read WITNESS_FOR: %w", err)
		}
	}
	record, err := write(life)
	if err != nil {
		return err
	}
	mode := os.Getenv("WITNESS_MODE")
	if mode == "stubborn" || mode == "forking" {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
			syscall.SIGUSR2)
	}
	store, err := open(life)
	if err != nil {
		return err
	}
	if os.Getenv(linkVariable) != "" {
		end := min(until, life.At+int64(link))
		if err := live(record, store, end); err != nil || end == until {
			return err
		}
		return fork(life.Run)
	}
	if mode == "forking" {
		for range chains {
			if err := fork(life.Run); err != nil {
				return err
			}
		}
	}
	if err := live(record, store, min(until, life.At+int64(work))); err != nil {
		return err
	}
	_, err = fmt.Fprintln(record, worked)
	return err
}

// begin returns what is known of the life when it begins.
func begin() (history.Event, error) {
	life := history.Event{Kind: history.Life, Client: os.Getenv("WITNESS_CLIENT"), PID: os.Getpid(), At: history.Now()}
	slot, noSlot := told(cmp.Or(os.Getenv("WITNESS_SLOT_VARIABLE"), "BERTH_SLOT"))
	term, noTerm := told(cmp.Or(os.Getenv("WITNESS_TERM_VARIABLE"), "BERTH_TERM"))
	status, noStatus := told("WITNESS_STATUS")
	life.Slot, life.Term, life.Until = int(slot), term, life.At
	if life.Run = os.Getenv(linkVariable); life.Run == "" {
		life.Run, life.Status = fmt.Sprintf("%s.%d.%d", life.Client, life.PID, life.At), int(status)
	}
	return life, errors.Join(noSlot, noTerm, noStatus)
}

// told returns a number from a variable, 0 if it is not set.
func told(name string) (uint64, error) {
	text := os.Getenv(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("cannot read %s: %w", name, err)
	}
	return n, nil
}

// write begins the record.
func write(life history.Event) (*os.File, error) {
	name := fmt.Sprintf("%d-%d", life.PID, life.At)
	if os.Getenv(linkVariable) != "" {
		name = "link-" + name
	}
	record, err := os.OpenFile(filepath.Join(os.Getenv("WITNESS_DIR"), name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return record, json.NewEncoder(record).Encode(life)
}

// live updates the store, and writes down that it lives, until then.
func live(record *os.File, store *register, until int64) error {
	for t := history.Now(); t < until; t = history.Now() {
		told, err := store.update(t)
		if err == nil {
			_, err = fmt.Fprintf(record, "%d%s\n", history.Now(), told)
		}
		if err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// fork starts the next process of a chain, in a session of its own. No process waits for it: its parent may end before it.
func fork(run string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	_, err = os.StartProcess(self, []string{Name}, &os.ProcAttr{
		Env:   append(os.Environ(), linkVariable+"="+run),
		Files: []*os.File{nil, nil, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	return err
}
