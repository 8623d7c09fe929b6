package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/prover/history"
	"berth/test/process"
)

// python is Debian's, which python3-pika is installed for.
const python = "/usr/bin/python3"

// holds runs a command under a lock of bash, which reads requests and does for each what is told here.
func holds(t *testing.T, acquire, verify, release, command string) *prove {
	t.Helper()
	return proves(t, "hold", "--verify", "10ms", "bash", "-c", `while read -r request; do
		echo "$request" >&2
		case $request in
		*acquire*) `+acquire+` ;;
		*verify*) `+verify+` ;;
		*release*) `+release+` ;;
		*exit*) status=${request##*:}; exit "${status%\}}" ;;
		esac
	done
	exit 9`, "--", "bash", "-c", command)
}

// Answers of the program.
const (
	isOK   = `echo '{"is":"ok"}'`
	isFail = `echo '{"is":"fail"}'`
	isInfo = `echo '{"is":"info"}'`
	isLost = `echo '{"is":"lost"}'`
)

// killed is the exit status of what was killed.
const killed = 128 + int(syscall.SIGKILL)

func TestHeldCommandIsToldWhatTheProgramTells(t *testing.T) {
	t.Parallel()
	p := holds(t, `echo '{"is":"ok","slot":2,"term":7}'`, isOK, isOK, `echo "slot $BERTH_SLOT, term $TERM_OF_IT"
		for file in 3 4 5; do [ ! -e /proc/$$/fd/$file ] || echo "it has file $file"; done
		exit 3`)
	p.Env = append(p.Env, "WITNESS_TERM_VARIABLE=TERM_OF_IT")
	p.start(t)
	p.ends(t, 3, "slot 2, term 7", `{"do":"release"}`, `{"do":"exit","status":3}`)
	if strings.Contains(p.err.String(), "it has file") {
		t.Errorf("the command has what hold uses:\n%s", &p.err)
	}
}

func TestHeldCommandEndsWithTheLock(t *testing.T) {
	t.Parallel()
	const long = "sleep 60"
	for name, p := range map[string]*prove{
		"verify fails":        holds(t, isOK, isFail, isOK, long),
		"lost with an answer": holds(t, isOK, isLost, isOK, long),
		"lost without":        holds(t, isOK+"; "+isLost, isOK, isOK, long),
	} {
		p.start(t)
		p.ends(t, killed)
		if strings.Contains(p.err.String(), "release") {
			t.Errorf("%s: what is lost was released", name)
		}
	}
}

func TestInfoEndsNothing(t *testing.T) {
	t.Parallel()
	p := holds(t, isOK, isInfo+"; echo >>infos", isInfo, `until [ "$(wc -l <infos)" -gt 2 ]; do sleep 0.01; done; exit 4`)
	if err := os.WriteFile(filepath.Join(p.Dir, "infos"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.start(t)
	p.ends(t, 4)
}

func TestWithoutALockNothingIsRun(t *testing.T) {
	t.Parallel()
	for _, acquire := range []string{isFail, isInfo, isLost} {
		p := holds(t, acquire, isOK, isOK, "echo it runs")
		p.start(t)
		p.ends(t, 75)
		if strings.Contains(p.err.String(), "it runs") {
			t.Errorf("%s: a command has run", acquire)
		}
	}
}

func TestProgramThatDoesNotEndIsKilled(t *testing.T) {
	t.Parallel()
	p := holds(t, isOK, isOK, isOK+"; exec sleep 60", "exit 4")
	p.start(t)
	p.ends(t, -1, "has not ended within 10s of exit")
}

func TestProgramThatBreaksTheProtocolIsToldAndKilled(t *testing.T) {
	t.Parallel()
	const signalled = -1
	for want, acquire := range map[string]string{
		`"hello": invalid`:      "echo hello",
		"must be ok, fail":      `echo '{"is":"yes"}'`,
		"count from 1":          `echo '{"is":"ok","slot":0}'`,
		"nothing was asked":     isOK + "; " + isOK,
		"cannot read what the":  `head -c 100000 /dev/zero`,
		"cannot start /nonexis": isOK,
	} {
		p := holds(t, acquire, isOK, isOK, "sleep 60")
		if acquire == isOK {
			p.Args[len(p.Args)-3] = "/nonexistent/command"
		}
		p.start(t)
		p.ends(t, signalled, want)
	}
}

func TestProgramThatEndsTooSoonIsTold(t *testing.T) {
	t.Parallel()
	for _, p := range []*prove{
		holds(t, "exit 5", isOK, isOK, ""), holds(t, isOK, "exit 5", isOK, "sleep 60"), holds(t, isOK, isOK, "exit 5", "true"),
	} {
		p.start(t)
		p.ends(t, 5, "the program has ended")
	}
}

func TestProgramThatDoesNotAnswerIsTold(t *testing.T) {
	t.Parallel()
	p := holds(t, "sleep 13; exit 6", isOK, isOK, "")
	p.start(t)
	p.ends(t, 6, "acquire of the program takes longer than 10s")
}

// A terminal or the end of a campaign sends it.
func TestTermToTheGroupEndsWhatTheProgramEnds(t *testing.T) {
	t.Parallel()
	p := holds(t, "trap : TERM; "+isOK, ": >>held; "+isOK, isOK, "until [ -e go ]; do sleep 0.01; done; exit 4")
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.start(t)
	exists := func() bool {
		_, err := os.Stat(filepath.Join(p.Dir, "held"))
		return err == nil
	}
	p.until(t, "it holds", exists)
	err := errors.Join(syscall.Kill(-p.Process.Pid, syscall.SIGTERM), os.Remove(filepath.Join(p.Dir, "held")))
	if err != nil {
		t.Fatal(err)
	}
	p.until(t, "it is still verified", exists)
	if err := os.WriteFile(filepath.Join(p.Dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.ends(t, 4)
}

// Else the next holder may begin before hold is given the processor.
func TestHeldCommandDiesWithTheProgramBeforeHoldIsAtIt(t *testing.T) {
	t.Parallel()
	p := holds(t, isOK, "echo 1 >verified", isOK, "echo $PPID >parent; echo $$ >pid; exec sleep 60")
	p.start(t)
	number := func(file string) (n int) {
		p.until(t, "there is "+file, func() bool {
			text, _ := os.ReadFile(filepath.Join(p.Dir, file))
			_, err := fmt.Sscanf(string(text), "%d\n", &n)
			return err == nil
		})
		return n
	}
	_, speaker, command := number("verified"), number("parent"), number("pid")
	if err := errors.Join(syscall.Kill(speaker, syscall.SIGSTOP), process.AwaitStopped(speaker, 20*time.Second),
		p.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	p.until(t, "the command is dead", func() bool {
		state, err := process.Stat(fmt.Sprintf("/proc/%d/stat", command))
		return err != nil || state[0] == "Z"
	})
	if err := syscall.Kill(speaker, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.ends(t, -1, "the program has ended")
}

// What the program has started keeps its output open.
func TestHeldCommandDiesWithTheProgramWhateverThatHasStarted(t *testing.T) {
	t.Parallel()
	p := holds(t, "sleep 61 2>&- & "+isOK, ": >held", isOK, "sleep 60")
	p.start(t)
	p.until(t, "it holds", func() bool {
		_, err := os.Stat(filepath.Join(p.Dir, "held"))
		return err == nil
	})
	began := time.Now()
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait() // for the command too, which has its output
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the command lived on for %s", took)
	}
	for pid := range p.left() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// lock is the program on the page about hold, with one text in place of another.
func lock(t *testing.T, p *prove, from, to string) {
	t.Helper()
	page, err := os.ReadFile("../docs/hold.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```python\n")
	text, _, _ = strings.Cut(text, "```")
	if strings.Count(text, from) != 1 {
		t.Fatalf("the page has no %s", from)
	}
	text = strings.Replace(text, from, to, 1)
	if err := os.WriteFile(filepath.Join(p.Dir, "lock.py"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// held is the adapter of that program.
func held(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self + " hold --verify 100ms " + python + " lock.py {lock} -- {witness}"
}

func TestLibraryIsJudged(t *testing.T) {
	t.Parallel()
	for to, status := range map[string]int{"LOCK_EX": statusKept, "LOCK_SH": statusViolated} {
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			p := proves(t, "run", "--adapter", held(t), "--faults", "all", "--clients", "3", "--time", "6s", "--work", "3s",
				"--progress", "30s", "--seed", "7", "--history", "h.jsonl")
			lock(t, p, "LOCK_EX", to)
			p.start(t)
			p.ends(t, status, "kept      orphans", "kept      progress")
			file, err := os.Open(filepath.Join(p.Dir, "h.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			h, err := history.Read(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range h {
				if e.Kind == history.Life && e.Slot != 1 {
					t.Errorf("%+v was not told its slot", e)
				}
			}
		})
	}
}

func TestRecipeWithTokensRuns(t *testing.T) {
	t.Parallel()
	recipe, err := filepath.Abs("example/recipe.py")
	if err != nil {
		t.Fatal(err)
	}
	recipe = python + " " + recipe + " {broker} {lock}"
	hold, _, _ := strings.Cut(held(t), python)
	p := proves(t, "run", "--broker", "start", "--slots", "2", "--time", "3s", "--work", "1s", "--setup", recipe+" {slots}",
		"--adapter", hold+recipe+" -- {witness}")
	p.start(t)
	p.ends(t, statusKept, "kept      overlap", "kept      progress") // overlap: of several slots, so it was told which
}

func TestNothingHeldOutlivesAProverThatIsKilled(t *testing.T) {
	t.Parallel()
	p := proves(t, "run", "--adapter", held(t), "--time", "10m", "--work", "10m")
	lock(t, p, "LOCK_EX", "LOCK_EX")
	p.Env = append(p.Environ(), "TMPDIR="+t.TempDir()) // nothing removes what it leaves there
	p.start(t)
	const all = 1 + 5*2 + 1 // berth-prove, programs and those that speak with them, a command
	p.until(t, "all are there", func() bool { return len(p.left()) >= all })
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.until(t, "all are gone", func() bool { return len(p.left()) == 0 })
	_ = p.Wait()
}

func (p *prove) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for over := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(over) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
