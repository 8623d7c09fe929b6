// Package hold makes of a program that answers lines of JSON a lock that runs a command, so that a library can be judged:
// docs/hold.md has the protocol.
//
// The process that is started becomes the program: what strikes a client strikes what holds the lock. Its child, the
// [Speaker], asks it, and runs the command.
package hold

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/prover/adapter"
)

const (
	slow    = 10 * time.Second // after which a request without an answer is told
	nothing = 75               // the exit status of a client that got nothing (EX_TEMPFAIL of sysexits.h)
)

var errEnded = errors.New("the program has ended, or closed its output, before it was asked to exit")

// Become starts berth-prove as the program's speaker, with these arguments, and becomes the program. It returns only if it
// cannot. The thread that calls it must be the process's first: of others the kernel forgets that they die with their
// parent (prctl(2), PR_SET_PDEATHSIG).
func Become(program, speaker []string) error {
	signal.Reset() // from here on they end it, as they will the program
	path, err := exec.LookPath(program[0])
	self, failed := os.Executable()
	answers, toSpeaker, noAnswers := os.Pipe()
	fromSpeaker, requests, noRequests := os.Pipe()
	life, living, noLife := os.Pipe()
	if err = errors.Join(err, failed, noAnswers, noRequests, noLife); err == nil {
		cmd := exec.Command(self, speaker...)
		cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Stdout, os.Stderr, []*os.File{answers, requests, life}
		// What the program has started may keep its output open when it dies.
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
		err = cmd.Start()
	}
	if err == nil {
		_, err = syscall.Dup(int(living.Fd())) // which exec does not close
		err = errors.Join(err, syscall.Dup3(int(fromSpeaker.Fd()), 0, 0), syscall.Dup3(int(toSpeaker.Fd()), 1, 0))
	}
	if err == nil {
		err = syscall.Exec(path, program, os.Environ())
	}
	return fmt.Errorf("cannot start the program: %w", err)
}

// The files of a speaker, in Become's order. The program has the other end of life open as long as it lives.
const (
	answers = iota + 3
	requests
	life
)

// Speaker asks a program, and runs a command while that holds a lock.
type Speaker struct {
	Program int           // its process, the parent
	Verify  time.Duration // how often it is asked whether it still holds the lock
	Command []string

	requests *os.File
	heard    chan message
	owed     bool // an answer is
	slow     *time.Timer
}

// message is a line of the program, or why there will be no more.
type message struct {
	Is         string
	Slot, Term *uint64

	err error
}

// Speak returns when the program has ended. It kills one that breaks the protocol. ctx ends with the first signal, which
// may be that of the program's death.
func (s *Speaker) Speak(ctx context.Context) error {
	for _, fd := range []int{answers, requests, life} {
		syscall.CloseOnExec(fd) // the command must not keep them open
	}
	s.requests, s.heard = os.NewFile(requests, "requests"), make(chan message)
	go s.listen(bufio.NewScanner(os.NewFile(answers, "answers")))
	context.AfterFunc(ctx, func() {
		if os.Getppid() != s.Program {
			s.heard <- message{err: errEnded}
		}
	})
	err := s.hold()
	if err != nil && err != errEnded && os.Getppid() == s.Program {
		_ = syscall.Kill(s.Program, syscall.SIGKILL)
	}
	return err
}

// hold gets the lock, runs the command, and lets go.
func (s *Speaker) hold() error {
	got, err := s.answer("acquire")
	if err != nil {
		return err
	}
	if got.Is != "ok" {
		return s.exit(nothing)
	}
	env := os.Environ()
	for name, n := range map[string]*uint64{"SLOT": got.Slot, "TERM": got.Term} {
		if n != nil {
			env = append(env, fmt.Sprintf("%s=%d", cmp.Or(os.Getenv("WITNESS_"+name+"_VARIABLE"), "BERTH_"+name), *n))
		}
	}
	work, err := adapter.Template(s.Command).Start(env, os.Stderr)
	if err != nil {
		return err
	}
	dieWithProgram(work.PID())
	holds, err := s.watch(work)
	work.Signal(syscall.SIGKILL) // which it gets unless it has ended
	_, status := work.Until()
	if holds {
		_, err = s.answer("release")
	}
	if err != nil {
		return err
	}
	return s.exit(status)
}

// dieWithProgram has the kernel kill the command when the program dies, as it does with threads of one process: until this
// process had the processor again, another holder could begin. See F_SETSIG in fcntl(2). It fails for one that has ended.
func dieWithProgram(command int) {
	_, _ = unix.FcntlInt(life, unix.F_SETOWN, command)
	_, _ = unix.FcntlInt(life, unix.F_SETSIG, int(syscall.SIGKILL))
	_, _ = unix.FcntlInt(life, unix.F_SETFL, unix.O_ASYNC)
}

// watch returns when the command has ended, or the lock is lost.
func (s *Speaker) watch(work *adapter.Client) (holds bool, err error) {
	again := time.NewTicker(s.Verify)
	defer again.Stop()
	for done := work.Done(); done != nil || s.owed; {
		select {
		case <-done:
			done = nil
		case m := <-s.heard:
			if err := s.take(m); err != nil || m.Is == "lost" || m.Is == "fail" {
				return false, err
			}
		case <-again.C:
			if done != nil && !s.owed {
				s.ask("verify", "")
			}
		}
	}
	return true, nil
}

// answer asks, and waits for the answer. Whatever is asked, that the lock is lost is one.
func (s *Speaker) answer(do string) (message, error) {
	s.ask(do, "")
	m := <-s.heard
	return m, s.take(m)
}

// exit has the program end, and waits for that, though not for ever. Nothing else that it prints matters any more.
func (s *Speaker) exit(status int) error {
	s.ask("exit", fmt.Sprintf(`,"status":%d`, status))
	s.requests.Close()
	late := time.NewTimer(slow)
	defer late.Stop()
	for {
		select {
		case m := <-s.heard:
			if m.err != nil {
				return nil
			}
		case <-late.C:
			return fmt.Errorf("the program has not ended within %s of exit; it is killed", slow)
		}
	}
}

// ask sends a request, with more fields, if there are any. A program that does not read it has no answer, or has ended.
func (s *Speaker) ask(do, more string) {
	_, _ = fmt.Fprintf(s.requests, "{\"do\":%q%s}\n", do, more)
	s.owed, s.slow = true, time.AfterFunc(slow, func() {
		fmt.Fprintf(os.Stderr, "berth-prove: %s of the program takes longer than %s\n", do, slow)
	})
}

// take notes that something was heard.
func (s *Speaker) take(m message) error {
	if m.err == nil && m.Is != "lost" && !s.owed {
		m.err = fmt.Errorf("the program printed %q, and nothing was asked", m.Is)
	}
	s.owed = false
	s.slow.Stop()
	return m.err
}

// listen passes on what the program prints, up to the end.
func (s *Speaker) listen(lines *bufio.Scanner) {
	for lines.Scan() {
		var m message
		err := json.Unmarshal(lines.Bytes(), &m)
		switch {
		case err != nil:
		case !slices.Contains([]string{"ok", "fail", "info", "lost"}, m.Is):
			err = errors.New(`"is" must be ok, fail, info or lost`)
		case m.Slot != nil && *m.Slot == 0 || m.Term != nil && *m.Term == 0:
			err = errors.New("slots and terms count from 1")
		}
		if err != nil {
			m.err = fmt.Errorf("the program printed %.200q: %w", lines.Text(), err)
		}
		s.heard <- m
	}
	if err := lines.Err(); err != nil {
		s.heard <- message{err: fmt.Errorf("cannot read what the program prints: %w", err)}
	}
	s.heard <- message{err: errEnded}
}
