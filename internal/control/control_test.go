package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"berth/lock"
)

const roleVariable = "CONTROL_TEST_DIR" // the test binary listens there until it is killed

// The first thread does not end, and its user is the process's (proc(5)): it is not to be the one of asNobody.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	dir := os.Getenv(roleVariable)
	if dir == "" {
		goleak.VerifyTestMain(m)
		return
	}
	NewServer(Config{Dir: dir, Log: hclog.Default()}).Begin()
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// serve returns a server in dir that listens, and the client for it. The server answers every request with the
// number of requests before it, and its user.
func serve(t *testing.T, dir string, admins ...string) (*Server, Client) {
	t.Helper()
	s := NewServer(Config{Dir: dir, Admins: admins, Log: hclog.NewNullLogger()})
	s.Begin()
	s.listen()
	ended := make(chan struct{})
	t.Cleanup(func() {
		s.End()
		close(ended)
	})
	go func() {
		for n := 0; ; n++ {
			select {
			case r := <-s.Requests():
				_ = r.Reply(context.Background(), fmt.Appendf(nil, `{"n":%d,"verb":%q,"from":%q}`, n, r.Verb, r.From))
			case <-ended:
				return
			}
		}
	}()
	return s, Client{Dir: dir, Owners: []int{0, os.Geteuid()}}
}

// one waits for the only socket in the directory.
func one(t *testing.T, c Client) Socket {
	t.Helper()
	return there(t, c, func(all []Socket) bool { return len(all) == 1 })[0]
}

func there(t *testing.T, c Client, enough func([]Socket) bool) []Socket {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		all, err := c.List()
		must(t, err)
		if enough(all) {
			return all
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("the sockets are %v", all)
		}
	}
}

func TestHolderIsAskedForTheSlotItHas(t *testing.T) {
	s, c := serve(t, filepath.Join(t.TempDir(), "sockets"))
	if got := one(t, c); got.Slot != 0 {
		t.Errorf("who waits has slot %d", got.Slot)
	}
	s.Holds(3)
	got := one(t, c)
	answer, err := c.Ask(t.Context(), got, 3, lock.AskStatus)
	want := `{"n":0,"verb":"status","from":"` + userName(os.Geteuid()) + `"}`
	if got.Slot != 3 || string(answer) != want {
		t.Errorf("slot %d, answer %s, %v; want %s", got.Slot, answer, err, want)
	}
	if _, err := c.Ask(t.Context(), got, 4, lock.AskStepDown); !errors.Is(err, ErrRefused) {
		t.Errorf("asked for another slot: %v, want %v", err, ErrRefused)
	}
	s.Holds(0)
	if got := one(t, c); got.Slot != 0 || !c.Listens(t.Context(), got) {
		t.Errorf("who waits again has slot %d", got.Slot)
	}
}

// unlogged is a server that a test begins and ends.
func unlogged(t *testing.T, dir string) *Server {
	t.Helper()
	s := NewServer(Config{Dir: dir, Log: hclog.NewNullLogger()})
	t.Cleanup(s.End)
	return s
}

func TestSocketIsMadeOnceAndTakenAway(t *testing.T) {
	s := unlogged(t, filepath.Join(t.TempDir(), "sockets"))
	c := Client{Dir: s.cfg.Dir, Owners: []int{os.Geteuid()}}
	for range 2 {
		s.Begin()
		s.listen()
		made := one(t, c)
		s.listen()
		if now := one(t, c); now != made {
			t.Errorf("%v is made, and then %v", made, now)
		}
		s.End()
		if all, err := c.List(); err != nil || len(all) != 0 {
			t.Errorf("left behind: %v, %v", all, err)
		}
	}
}

func TestSocketOfWhoEndsAtOnceIsNeverMade(t *testing.T) {
	s := unlogged(t, filepath.Join(t.TempDir(), "sockets"))
	s.Begin()
	s.End()
	s.listen() // the timer may have been too late to stop
	if _, err := os.Stat(s.cfg.Dir); err == nil {
		t.Error("it is made")
	}
}

func TestSocketThatCannotBeMadeIsTold(t *testing.T) {
	takeName(t, os.Getpid())
	for dir, want := range map[string]string{
		"":                                       "by its process number",
		filepath.Join(t.TempDir(), "no", "such"): "cannot listen for requests",
	} {
		var log strings.Builder
		s := NewServer(Config{Dir: dir, Log: hclog.New(&hclog.LoggerOptions{Output: &log})})
		s.Begin()
		s.listen()
		s.End()
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is told of %q", log.String(), dir)
		}
	}
}

func TestPathMayBeLongerThanAnAddress(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 50))
	must(t, os.Mkdir(dir, 0o755))
	_, c := serve(t, filepath.Join(dir, "sockets"))
	_, err := c.Ask(t.Context(), one(t, c), 0, lock.AskStatus)
	must(t, err)
}

// asNobody runs do on a thread that is another user's, for SO_PEERCRED. Needs root.
func asNobody(t *testing.T, do func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		unchanged := ^uintptr(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, unchanged, nobody, unchanged); errno != 0 {
			done <- errno
			return
		}
		done <- do()
	}()
	must(t, <-done)
}

func TestOtherUsersAreSentAway(t *testing.T) {
	for name, test := range map[string]struct {
		admins []string
		denied bool
	}{
		"no administrators": {nil, true}, "another administrator": {[]string{"daemon", "no such user"}, true},
		"by number": {[]string{"65534"}, false}, "by name": {[]string{userName(nobody)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "sockets")
			must(t, os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755))
			_, c := serve(t, dir, test.admins...)
			asNobody(t, func() error {
				answer, err := c.Ask(t.Context(), one(t, c), 0, lock.AskStepDown)
				if errors.Is(err, lock.ErrDenied) != test.denied ||
					!test.denied && !strings.Contains(string(answer), userName(nobody)) {
					t.Errorf("answer %s, %v", answer, err)
				}
				return nil
			})
		})
	}
}

func TestAdministratorsCanBeOthersFromNowOn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sockets")
	must(t, os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755))
	s, c := serve(t, dir)
	for _, admins := range [][]string{{"65534"}, nil, {"65534", "daemon"}, {"daemon"}} {
		s.SetAdmins(admins)
		asNobody(t, func() error {
			_, err := c.Ask(t.Context(), one(t, c), 0, lock.AskReload)
			if denied := !slices.Contains(admins, "65534"); errors.Is(err, lock.ErrDenied) != denied {
				t.Errorf("administrators are %q: %v", admins, err)
			}
			return nil
		})
	}
}

func TestAnswerOfAnotherUserDoesNotCount(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o777))
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	var l *net.UnixListener
	asNobody(t, func() (err error) {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(dir, "1-1-00000000")})
		return err
	})
	defer l.Close()
	c := Client{Dir: dir, Owners: []int{0}}
	if _, err := c.Ask(t.Context(), one(t, c), 1, lock.AskStatus); !errors.Is(err, lock.ErrDenied) {
		t.Errorf("error is %v, want %v", err, lock.ErrDenied)
	}
	if c.Listens(t.Context(), one(t, c)) {
		t.Error("it counts as one that waits")
	}
}

func TestDirectoryOfAnotherUserIsNotListenedIn(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"of another user": func(dir string) error { return errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, nobody, -1)) },
		"writable for everybody": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o777))
		},
		"a link": func(dir string) error { return os.Symlink(t.TempDir(), dir) },
		"a file": func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
	} {
		dir := filepath.Join(t.TempDir(), "sockets")
		must(t, spoil(dir))
		if f, err := makeFolder(dir); err == nil {
			_ = f.Close()
			t.Errorf("%s: it is used", name)
		}
	}
}

func TestSocketOfAKilledProcessIsRemovedByTheNext(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sockets")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+dir)
	input, err := cmd.StdinPipe()
	must(t, err)
	defer input.Close()
	must(t, cmd.Start())
	c := Client{Dir: dir, Owners: []int{os.Geteuid()}}
	left := one(t, c)
	if !c.Listens(t.Context(), left) {
		t.Error("the process does not listen")
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	if _, err := c.Ask(t.Context(), left, 0, lock.AskStatus); !errors.Is(err, ErrDead) {
		t.Errorf("who is asked is dead: %v, want %v", err, ErrDead)
	}
	unlogged(t, dir).Begin()
	there(t, c, func(all []Socket) bool { return len(all) == 1 && !slices.Contains(all, left) })
}
