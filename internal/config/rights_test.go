package config

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// as has a thread do something that has another user and these capabilities alone. It needs root.
func as(t *testing.T, uid uintptr, capabilities []int, do func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0)
		// Package syscall would set the user of all threads.
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); errno != 0 {
			err = errors.Join(err, errno)
		}
		var sets [2]unix.CapUserData
		for _, c := range capabilities {
			sets[c/32].Effective |= 1 << (c % 32)
			sets[c/32].Permitted |= 1 << (c % 32)
		}
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		if err = errors.Join(err, unix.Capset(&header, &sets[0])); err == nil {
			do()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

var mayChangeUser = []int{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL}

func TestRightsDependOnWhoBerthIs(t *testing.T) {
	for name, c := range map[string]struct {
		uid          uintptr
		capabilities []int
		words        string
		want         string
	}{
		"a user":              {54321, nil, "", ""},
		"a group of a user":   {54321, mayChangeUser, "--group|54322", "confined,no-new-privileges,no-typing"},
		"with new privileges": {0, mayChangeUser, "--user|54321|--group|54321|--no-new-privileges|false", "confined"},
		"without": {0, mayChangeUser, "--user|54321|--group|54321",
			"confined,no-new-privileges,no-typing"},
		"an administrator": {0, append(mayChangeUser, unix.CAP_SYS_ADMIN),
			"--user|54321|--group|54321|--no-new-privileges|false", "confined,no-typing"},
	} {
		words := strings.FieldsFunc(c.words+"|--broker|local|--mutex|m|--|x", func(r rune) bool { return r == '|' })
		as(t, c.uid, c.capabilities, func() {
			run, err := Load(input(words...))
			if err != nil || run.Rights.String() != c.want {
				t.Errorf("%s: %q, %v; want %q", name, run.Rights, err, c.want)
			}
		})
	}
}

func TestUserThatBerthMayNotBecomeIsRefused(t *testing.T) {
	for words, want := range map[string]string{
		"--user|54322|--group|54322": `--user "54322": needs CAP_SETUID`,
		"--group|54322":              `--group "54322": needs CAP_SETGID`,
	} {
		as(t, 54321, nil, func() {
			_, err := Load(input(strings.Split(words+"|--broker|local|--mutex|m|--|x", "|")...))
			if !errors.Is(err, ErrUsage) || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: %v", words, err)
			}
		})
	}
}

// At a terminal the command must not be able to type. It runs the test again in a session of its own, at a terminal.
func TestCommandThatCouldTypeIsRefused(t *testing.T) {
	const at = "BERTH_TEST_AT_TERMINAL"
	if os.Getenv(at) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), at+"=1")
		terminal, err := pty.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		defer terminal.Close()
		output, _ := io.ReadAll(terminal) // EIO is its end
		if err := cmd.Wait(); err != nil || !strings.Contains(string(output), "PASS") {
			t.Errorf("%v:\n%s", err, output)
		}
		return
	}
	words := []string{"--user", "54321", "--group", "54321", "--broker", "local", "--mutex", "m"}
	as(t, 0, mayChangeUser, func() {
		run, err := Load(input(append(words, "--", "x")...))
		if err != nil || !run.Rights.NoTyping {
			t.Errorf("%v, %v", run.Rights, err)
		}
		_, err = Load(input(append(words, "--no-new-privileges", "false", "--", "x")...))
		if !errors.Is(err, ErrUsage) || !strings.HasPrefix(err.Error(),
			`--no-new-privileges "false": needs CAP_SYS_ADMIN at a terminal`) {
			t.Error(err)
		}
	})
}
