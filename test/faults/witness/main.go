// Command witness is what the fault suite runs under berth. It writes down, about
// every millisecond, that it lives:
//
//	start SLOT TERM PID HOLDER NANOSECONDS
//	alive NANOSECONDS
//
// on CLOCK_BOOTTIME, into a file of its own in the directory WITNESS_DIR. SLOT and
// TERM are what berth told it, HOLDER is WITNESS_HOLDER.
//
// WITNESS_MODE is one of
//
//	plain     it ends on TERM
//	stubborn  it ignores everything that can be ignored
//	forking   stubborn, and two chains of processes beside it, each in a session
//	          of its own, each process starting the next one and ending
//
// Whatever happens, it ends at WITNESS_UNTIL, so that a berth that is broken
// leaves nothing behind for ever.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	chains = 2                     // how many processes a forking witness has beside it
	link   = 40 * time.Millisecond // how long each of them lives

	linkVariable = "WITNESS_LINK" // set for a process of a chain
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "witness:", err)
		os.Exit(1)
	}
}

func run() error {
	began := now()
	path := filepath.Join(os.Getenv("WITNESS_DIR"), fmt.Sprintf("%d-%d", os.Getpid(), began))
	record, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	until, err := strconv.ParseInt(os.Getenv("WITNESS_UNTIL"), 10, 64)
	if err != nil {
		return fmt.Errorf("cannot read WITNESS_UNTIL: %w", err)
	}
	if _, err := fmt.Fprintf(record, "start %s %s %d %s %d\n", os.Getenv("BERTH_SLOT"), os.Getenv("BERTH_TERM"),
		os.Getpid(), os.Getenv("WITNESS_HOLDER"), began); err != nil {
		return err
	}
	mode := os.Getenv("WITNESS_MODE")
	if mode != "plain" {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
			syscall.SIGUSR2)
	}
	if os.Getenv(linkVariable) != "" {
		end := min(until, began+int64(link))
		if err := live(record, end); err != nil || end == until {
			return err
		}
		return fork()
	}
	if mode == "forking" {
		for range chains {
			if err := fork(); err != nil {
				return err
			}
		}
	}
	return live(record, until)
}

// live writes down that it lives, until then.
func live(record *os.File, until int64) error {
	for t := now(); t < until; t = now() {
		if _, err := fmt.Fprintf(record, "alive %d\n", t); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// fork starts the next process of a chain, in a session of its own. Nobody waits
// for it: its parent may end before it.
func fork() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	_, err = os.StartProcess(self, []string{"witness"}, &os.ProcAttr{
		Env:   append(os.Environ(), linkVariable+"=1"),
		Files: []*os.File{nil, nil, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	return err
}

func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // every Linux that Go supports has the clock
	}
	return t.Nano()
}
