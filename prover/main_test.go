package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/prover/adapter"
	"berth/prover/campaign"
	"berth/prover/history"
	"berth/prover/witness"
	"berth/test/process"
)

// selfVariable makes the test's binary berth-prove.
const selfVariable = "BERTH_PROVE_SELF"

func TestMain(m *testing.M) {
	if witness.Called() || os.Getenv(selfVariable) != "" {
		main()
	}
	os.Exit(m.Run())
}

// prove runs berth-prove in a directory of its own.
type prove struct {
	*exec.Cmd
	out, err bytes.Buffer
}

func proves(t *testing.T, args ...string) *prove {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const patience = 4 * time.Minute
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	p := &prove{Cmd: exec.CommandContext(ctx, self, args...)}
	p.Dir, p.Stdout, p.Stderr = t.TempDir(), &p.out, &p.err
	p.Env = append(os.Environ(), selfVariable+"="+p.Dir)
	return p
}

// ends waits for the end, wants the status, and that nothing is left.
func (p *prove) ends(t *testing.T, status int, texts ...string) {
	t.Helper()
	err := p.Wait()
	exit := new(exec.ExitError)
	if err != nil && !errors.As(err, &exit) || p.ProcessState.ExitCode() != status {
		t.Errorf("%v, want status %d", err, status)
	}
	for _, text := range texts {
		if !strings.Contains(p.out.String()+p.err.String(), text) {
			t.Errorf("nothing about %q", text)
		}
	}
	if left := p.left(); len(left) > 0 {
		t.Errorf("left: %d processes", len(left))
	}
	if t.Failed() {
		t.Logf("%q printed:\n%s%s", p.Args, &p.out, &p.err)
	}
}

// left returns what lives of it and of all that it has started.
func (p *prove) left() map[int][]string { return process.WithEnvironment(selfVariable + "=" + p.Dir) }

func (p *prove) start(t *testing.T) {
	t.Helper()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
}

func TestLockThatKeepsItsPromises(t *testing.T) {
	t.Parallel()
	// In the calm the first client runs a command to its end: no status is judged of one that was struck.
	p := proves(t, "run", "--adapter", "flock {lock} {witness}", "--faults", "kill,stop,kill-child", "--clients", "3",
		"--time", "8s", "--calm", "3s", "--work", "1s", "--progress", "20s", "--seed", "7", "--history", "h.jsonl", "--report",
		"r.json", "--report", "r.html", "--logs", "logs")
	p.start(t)
	p.ends(t, statusKept, "kept      overlap", "kept      permits", "unknown   terms", "kept      progress",
		"kept      orphans", "kept      statuses", "kept      updates")
	text, err := os.ReadFile(filepath.Join(p.Dir, "h.jsonl"))
	for _, want := range []string{`"faults":["kill","stop","kill-child"]`, `"fault":"end"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in the history, %v", want, err)
		}
	}
	again := proves(t, "judge", filepath.Join(p.Dir, "h.jsonl"))
	again.start(t)
	again.ends(t, statusKept, "kept      overlap")
	for _, file := range []string{"r.json", "r.html", "logs/c1.log"} {
		if _, err := os.Stat(filepath.Join(p.Dir, file)); err != nil {
			t.Error(err)
		}
	}
}

func TestNoLockAtAllIsFoundOut(t *testing.T) {
	t.Parallel()
	p := proves(t, "run", "--adapter", "{witness}", "--time", "3s", "--progress", "1s")
	p.start(t)
	p.ends(t, statusViolated, "violated  overlap", "violated  permits", "violated  updates", " --seed ")
}

// Where commands overlap, terms keep what they write.
func TestTermsFenceTheRegister(t *testing.T) {
	t.Parallel()
	// The lock has each client take the next term, and excludes none.
	const lock = "exec 9>>$1\nflock 9\necho >>$1\nTERM_OF_COMMAND=$(wc -l <$1)\nexport TERM_OF_COMMAND\nexec $2 9>&-\n"
	for variable, want := range map[string]string{"TERM_OF_COMMAND": "kept      updates", "NONE": "violated  updates"} {
		p := proves(t, "run", "--adapter", "sh lock.sh {lock} {witness}", "--clients", "3", "--time", "4s", "--progress", "1s",
			"--seed", "7", "--term-variable", variable)
		if err := os.WriteFile(filepath.Join(p.Dir, "lock.sh"), []byte(lock), 0o600); err != nil {
			t.Fatal(err)
		}
		p.start(t)
		p.ends(t, statusViolated, "violated  overlap", want)
	}
}

func TestFirstViolationIsTheEnd(t *testing.T) {
	t.Parallel()
	p := proves(t, "run", "--adapter", "{witness}", "--until-violated", "--time", "10m")
	p.start(t)
	p.ends(t, statusViolated, "violated  overlap")
}

func TestNothingIsBrokenInTheCalm(t *testing.T) {
	t.Parallel()
	p := proves(t, "run", "--adapter", "flock {lock} {witness}", "--faults", "kill", "--time", "6s", "--calm", "5950ms",
		"--work", "1s")
	p.start(t)
	p.ends(t, statusKept, "no verdict: it has struck nothing")
}

func TestWhatACommandLeavesIsFoundAndKilled(t *testing.T) {
	t.Parallel()
	p := proves(t, "run", "--adapter", "flock {lock} {witness}", "--commands", "forking", "--time", "1s",
		"--progress", "5s")
	p.start(t)
	p.ends(t, statusViolated, "violated  orphans")
}

func TestLostStatusIsViolatedUnlessOthersAreAskedFor(t *testing.T) {
	t.Parallel()
	p := proves(t, "run", "--adapter", "sh lock {lock} {witness}", "--until-violated", "--time", "10m", "--work", "1s", "--history", "h")
	if err := os.WriteFile(filepath.Join(p.Dir, "lock"), []byte(`flock "$1" "$2"; exit 0`), 0o600); err != nil {
		t.Fatal(err)
	}
	p.start(t)
	p.ends(t, statusViolated, "kept      overlap", "violated  statuses", "ended with status 0, and not with 7")
	again := proves(t, "judge", filepath.Join(p.Dir, "h"), "--checkers", "overlap,orphans")
	again.start(t)
	again.ends(t, statusKept, "kept      overlap", "kept      orphans")
}

func TestWhatCannotRunIsNoVerdict(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"name what to do":         {},
		`no command "prove"`:      {"prove"},
		"--slots, --clients":      {"run", "--adapter", "{witness}", "--slots", "0"},
		"give --clients 6 or":     {"run", "--adapter", "{witness}", "--slots", "5"},
		"--work 1ms":              {"run", "--adapter", "{witness}", "--work", "1ms"},
		"--calm 1m0s":             {"run", "--adapter", "{witness}", "--time", "1m", "--calm", "1m"},
		"it needs {witness}":      {"run", "--adapter", "true"},
		"give both or none":       {"run", "--adapter", "x {broker} {witness}"},
		"{broker} in --adapter":   {"run", "--adapter", "{witness}", "--broker", "start"},
		"a URL such as http://":   {"run", "--adapter", "{witness} {broker}", "--broker", "rabbit"},
		"dist/brokers/9.9/bin":    {"run", "--adapter", "{witness} {broker}", "--broker", "start:9.9"},
		`no fault "flood"`:        {"run", "--adapter", "{witness}", "--faults", "flood"},
		"broker of the prover's":  {"run", "--adapter", "{witness}", "--faults", "broker-kill"},
		"start --nodes 3":         {"run", "--adapter", "{witness}", "--faults", "node-cut"},
		"--nodes goes with":       {"run", "--adapter", "{witness}", "--nodes", "3"},
		"--at-once and --nodes":   {"run", "--adapter", "{witness}", "--at-once", "0"},
		"must be NAME=COMMAND":    {"run", "--adapter", "{witness}", "--faults", "all", "--fault", "Re size=true"},
		"an empty command line":   {"run", "--adapter", "{witness}", "--faults", "all", "--fault", "resize"},
		"a fault of that name":    {"run", "--adapter", "{witness}", "--faults", "all", "--fault", "kill=true"},
		"resize does not strike":  {"run", "--adapter", "{witness}", "--faults", "kill", "--fault", "resize=true"},
		"{broker} goes with":      {"run", "--adapter", "{witness}", "--faults", "all", "--fault", "resize=x {broker}"},
		"must be FAULT=CHECKER":   {"run", "--adapter", "{witness}", "--allow", "kill=speed"},
		`--allow "flood=overlap"`: {"run", "--adapter", "{witness}", "--allow", "flood=overlap"},
		"/nonexistent/lock":       {"run", "--adapter", "/nonexistent/lock {witness}"},
		"no command has run":      {"run", "--adapter", "false {witness}", "--time", "10m"},
		"last one has printed":    {"run", "--adapter", "true {witness}", "--time", "10m"},
		"setup \"false\" ended":   {"run", "--adapter", "{witness}", "--setup", "false"},
		"cannot read the history": {"judge", "/nonexistent/history"},
		"history: open h.jsonl":   {"judge", "h.jsonl", "--report", "out.html"},
		"name the lock":           {"run", "--faults", "kill"},
		"give --slots":            {"judge", "/dev/null"},
		"out.txt":                 {"run", "--adapter", "{witness}", "--report", "out.txt"},
		"with -- between them":    {"hold", "true"},
		"--verify must be":        {"hold", "--verify", "0s", "true", "--", "true"},
		"/nonexistent/program":    {"hold", "/nonexistent/program", "--", "true"},
		"/nonexistent/h.jsonl":    {"run", "--adapter", "{witness}", "--history", "/nonexistent/h.jsonl"},
	} {
		p := proves(t, args...)
		p.start(t)
		p.ends(t, statusUnknown, want)
	}
}

func TestInterruptEndsEverything(t *testing.T) {
	t.Parallel()
	p := proves(t, "run", "--adapter", "flock {lock} {witness}", "--time", "10m", "--history", "h.jsonl")
	temporary := t.TempDir()
	p.Env = append(p.Env, "TMPDIR="+temporary)
	p.start(t)
	const several = 6 // berth-prove, and clients
	for over := time.Now().Add(time.Minute); len(p.left()) < several; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(over) {
			t.Fatal("the clients do not start")
		}
	}
	ended := make(chan struct{})
	go func() { // again and again: the first one is enough
		for p.Process.Signal(syscall.SIGINT) == nil {
			select {
			case <-ended:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	p.ends(t, statusUnknown, "interrupt", "in some seconds")
	close(ended)
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	file, err := os.Open(filepath.Join(p.Dir, "h.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if h, err := history.Read(file); err != nil || len(h) == 0 {
		t.Errorf("%v, %v", h, err)
	}
}

func TestHistoryOfOthersIsJudged(t *testing.T) {
	t.Parallel()
	const lives = `{"kind":"lock","slots":2}
{"kind":"life","client":"a","run":"a1","at":1,"until":5}
{"kind":"life","client":"b","run":"b1","at":4,"until":9}
`
	for slots, want := range map[int]int{0: statusKept, 1: statusViolated} {
		p := proves(t, "judge", "--slots", fmt.Sprint(slots), "-")
		p.Stdin = strings.NewReader(lives)
		p.start(t)
		p.ends(t, want)
	}
	p := proves(t, "judge", "-")
	p.Stdin = strings.NewReader(`{"kind":"lock","slots":2}`)
	p.start(t)
	p.ends(t, statusUnknown, "nothing ran")
}

func TestListHasALineForEach(t *testing.T) {
	t.Parallel()
	p := proves(t, "list")
	p.start(t)
	p.ends(t, statusKept, "fault    broker-kill", "fault    broker-restart", "checker  overlap")
}

func TestWhatIsViolatedStaysSoWhateverFailsBesideIt(t *testing.T) {
	t.Parallel()
	p := proves(t, "run", "--adapter", "{witness}", "--time", "3s", "--progress", "1s", "--history", "/dev/full")
	p.start(t)
	p.ends(t, statusViolated, "cannot write the history")
}

// Without its file a lock of flock is free.
func TestWhatAFaultAllowsIsNoViolation(t *testing.T) {
	t.Parallel()
	args := []string{"run", "--adapter", "flock {lock} {witness}", "--faults", "purge", "--fault", "purge=rm -f {lock}", "--time", "8s",
		"--work", "1s", "--progress", "10s", "--seed", "7", "--allow"}
	p := proves(t, append(args, "")...)
	p.start(t)
	p.ends(t, statusViolated, "violated  overlap")
	p = proves(t, append(args, "purge=overlap", "--allow", "purge=permits", "--allow", "purge=updates", "--history",
		"h.jsonl")...)
	p.start(t)
	p.ends(t, statusKept, "kept      overlap", "limit: ")
	again := proves(t, "judge", filepath.Join(p.Dir, "h.jsonl"))
	again.start(t)
	again.ends(t, statusKept, "limit: ")
}

func TestCommandThatFailsToBreakAnythingIsTold(t *testing.T) {
	t.Parallel()
	p := proves(t, "run", "--adapter", "flock {lock} {witness}", "--faults", "broken", "--fault", "broken=false", "--time", "6s",
		"--seed", "7", "--work", "1s")
	p.start(t)
	p.ends(t, statusKept, "fault broken ended with status 1", "no verdict: it has struck nothing")
}

// What runs on would break things when the fault is over.
func TestWhatAFaultLeavesIsKilledAndTold(t *testing.T) {
	t.Parallel()
	p := proves(t, "run", "--adapter", "flock {lock} {witness}", "--faults", "leaves", "--fault", "leaves=sh leaves.sh", "--time",
		"4s", "--seed", "7", "--work", "1s", "--report", "r.json")
	if err := os.WriteFile(filepath.Join(p.Dir, "leaves.sh"), []byte("setsid sleep 60 </dev/null >/dev/null 2>&1 &\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.start(t)
	p.ends(t, statusKept, "leaves left processes, which were killed: [", "no verdict: it has struck nothing")
	text, err := os.ReadFile(filepath.Join(p.Dir, "r.json"))
	if !strings.Contains(string(text), "leaves left processes") {
		t.Errorf("the report does not tell, %v", err)
	}
}

// Names are in certificates: a relay has another one.
func TestRelaysAreBeforeBrokersWithoutTLS(t *testing.T) {
	for broker, server := range map[string]string{
		"amqp://guest:guest@rabbit/locks": "rabbit:5672", "amqp://rabbit:5673": "rabbit:5673", "http://[::1]:2379": "[::1]:2379",
		"amqps://rabbit:5671": "", "https://etcd:2379": "", "http://consul": "",
	} {
		cfg := campaign.Config{Values: adapter.Values{}}
		err := useServers(&cfg, broker)
		if err != nil || cfg.Values[adapter.Broker] != broker || (cfg.Servers != nil) != (server != "") ||
			cfg.Servers != nil && cfg.Servers[0].Host != server {
			t.Errorf("%s: %v, %v", broker, cfg.Servers, err)
		}
	}
}
