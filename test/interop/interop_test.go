package interop

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "berth/internal/cli"           // so that go test runs the tests again when they have changed:
	_ "berth/internal/guard/process" // it knows nothing of the binary that is built here
	"berth/prover/history"
	"berth/prover/judge"
	"berth/prover/witness"
	"berth/test/brokertest"
	"berth/test/process"
)

// python is Debian's, which python3-pika is installed for.
const python = "/usr/bin/python3"

// patience is how long a test waits for what has to happen, far more than it takes.
const patience = time.Minute

var (
	binary  string // berth
	command string // the witness that every berth runs
	client  string // client.py
	shared  *brokertest.Broker
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // most of what they do is to wait for leases
		return 1, err
	}
	dir, err := os.MkdirTemp("", "berth-interop-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if out, err := exec.Command(python, "-c", "import pika").CombinedOutput(); err != nil {
		return 1, fmt.Errorf("%s has no pika: install python3-pika, as scripts/deps.sh does: %s", python, out)
	}
	if client, err = filepath.Abs("client.py"); err != nil {
		return 1, err
	}
	binary, command = filepath.Join(dir, "berth"), filepath.Join(dir, witness.Name)
	for program, pkg := range map[string]string{binary: "berth", command: "berth/prover"} {
		build := exec.Command("go", "build", "-o", program, "-tags", "urfave_cli_no_docs,urfave_cli_no_suggest", pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0") // as e2e builds it: what is built so is compiled once
		if out, err := build.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("cannot build %s: %w\n%s", pkg, err, out)
		}
	}
	if shared, err = brokertest.Start(context.Background()); err != nil {
		return 1, err
	}
	code = m.Run()
	return code, shared.Stop()
}

// place is a lock that both sides contend for, and what they write down of it.
type place struct {
	t            *testing.T
	name, naming string
	heartbeat    int
	records      string // a directory
	logs         string // a directory
	started      int
}

func newPlace(t *testing.T, naming string, slots int) *place {
	t.Helper()
	p := &place{t: t, name: strings.ReplaceAll(t.Name(), "/", " "), naming: naming, heartbeat: 1,
		records: t.TempDir(), logs: t.TempDir()}
	p.berthResizes("create", "--slots", fmt.Sprint(slots))
	t.Cleanup(func() {
		if t.Failed() {
			p.showLogs()
		}
	})
	return p
}

func (p *place) showLogs() {
	for i := range p.started {
		text, _ := os.ReadFile(p.log(i))
		p.t.Logf("process %d printed:\n%s", i, text[max(0, len(text)-4000):])
	}
}

func (p *place) log(n int) string { return filepath.Join(p.logs, fmt.Sprint(n)) }

// protocol is what both sides have to agree on, as flags of berth.
func (p *place) protocol() []string {
	return []string{"--broker", shared.URL(), "--naming", p.naming, "--protocol", "plain"}
}

// runner is a process of either side.
type runner struct {
	*process.Process
	p *place
	n int
}

// start starts a process whose witness, if it has one, works for so long.
func (p *place) start(hold time.Duration, words ...string) *runner {
	p.t.Helper()
	out, err := os.Create(p.log(p.started))
	if err != nil {
		p.t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), fmt.Sprintf("WITNESS_CLIENT=%s-%d", berthSide, p.started), "WITNESS_DIR="+p.records,
		"WITNESS_FOR="+hold.String(), fmt.Sprintf("WITNESS_UNTIL=%d", history.Now()+int64(24*time.Hour)))
	r := &runner{p: p, n: p.started}
	p.started++
	if r.Process, err = process.Start(cmd); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(r.kill)
	return r
}

func (r *runner) signal(sig syscall.Signal) { _ = syscall.Kill(r.PID(), sig) }

// kill ends the process without a word. The guard of a berth ends its command.
func (r *runner) kill() {
	r.signal(syscall.SIGKILL)
	<-r.Done()
}

// printed reports whether the process has printed the text.
func (r *runner) printed(text string) bool {
	all, _ := os.ReadFile(r.p.log(r.n))
	return strings.Contains(string(all), text)
}

// The sides of a place, which the names of their clients begin with.
const (
	berthSide  = "berth"
	pythonSide = "python"
)

// berth starts one whose command works for so long.
func (p *place) berth(hold time.Duration) *runner {
	p.t.Helper()
	lease := time.Duration(2*p.heartbeat) * time.Second
	words := append([]string{binary, "run", "--semaphore", p.name}, p.protocol()...)
	words = append(words, "--heartbeat", fmt.Sprintf("%ds", p.heartbeat), "--verify-interval", (lease / 10).String(),
		"--verify-timeout", (lease / 4).String(), "--loss", "TERM "+(lease/10).String()+", KILL", "--log-level", "debug",
		"--", command)
	return p.start(hold, words...)
}

// client starts one that works for about so long, again and again. delay is what it waits for before: "" is what it has
// to.
func (p *place) client(hold time.Duration, delay string) *runner {
	p.t.Helper()
	words := []string{python, client, "contend", shared.URL(), p.name, "--naming", p.naming, "--records", p.records,
		"--heartbeat", fmt.Sprint(p.heartbeat), "--hold", fmt.Sprint(hold.Seconds())}
	if delay != "" {
		words = append(words, "--delay", delay)
	}
	return p.start(hold, words...)
}

func (p *place) do(words ...string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput(); err != nil {
		p.t.Fatalf("%v: %v\n%s", words, err, out)
	}
}

func (p *place) berthResizes(how ...string) {
	p.t.Helper()
	p.do(append(append([]string{binary, "semaphore", how[0], p.name}, how[1:]...), p.protocol()...)...)
}

func (p *place) clientResizes(slots int) {
	p.t.Helper()
	p.do(python, client, "resize", shared.URL(), p.name, fmt.Sprint(slots), "--naming", p.naming)
}

func (p *place) lives() history.History {
	p.t.Helper()
	all, err := witness.Read(p.records)
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}

// begun counts the holdings of a side that have begun.
func (p *place) begun(side string) (n int) {
	for _, r := range judge.Runs(p.lives()) {
		if strings.HasPrefix(r.Client, side) {
			n++
		}
	}
	return n
}

func (p *place) until(what string, is func() bool) {
	p.t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// judged fails the test if anything was that must not be.
func (p *place) judged(slots int) {
	p.t.Helper()
	for _, problem := range p.problems(slots) {
		p.t.Error(problem)
	}
}

func (p *place) problems(slots int) []string {
	p.t.Helper()
	lives := p.lives()
	all := judge.Problems(judge.Judge(lives, judge.Bounds{Slots: slots}, "overlap", "permits", "terms"))
	for _, r := range judge.Runs(lives) {
		if r.Slot == 0 { // which the judge does not need to know where there is one
			all = append(all, "its slot was not told: "+r.String())
		}
	}
	return all
}

var namings = []string{"N-L-A", "N-A-L"}

// each runs a test beside itself with either naming.
func each(t *testing.T, test func(t *testing.T, naming string)) {
	t.Parallel()
	for _, naming := range namings {
		t.Run(naming, func(t *testing.T) {
			t.Parallel()
			test(t, naming)
		})
	}
}

// fleetTime is for how long the fleets contend: INTEROP_TIME, or for seconds.
func fleetTime(t *testing.T) time.Duration {
	text := os.Getenv("INTEROP_TIME")
	if text == "" {
		return 15 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("INTEROP_TIME: %v", err)
	}
	return d
}

func TestMixedFleetsHoldNoMoreThanThereAre(t *testing.T) {
	each(t, func(t *testing.T, naming string) {
		const slots = 2
		p := newPlace(t, naming, slots)
		over := time.Now().Add(fleetTime(t))
		var fleet []*runner
		start := []func() *runner{
			func() *runner { return p.berth(400 * time.Millisecond) },
			func() *runner { return p.client(400*time.Millisecond, "") },
		}
		for i := range 6 {
			fleet = append(fleet, start[i%2]())
		}
		kills := 0
		for killAt := time.Now().Add(4 * time.Second); time.Now().Before(over); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(killAt) {
				fleet[rand.N(len(fleet))].kill()
				kills++
				killAt = time.Now().Add(rand.N(4 * time.Second))
			}
			for i, r := range fleet {
				if ended(r) {
					fleet[i] = start[i%2]()
				}
			}
		}
		p.until("both sides have held", func() bool { return p.begun(berthSide) > 0 && p.begun(pythonSide) > 0 })
		for _, r := range fleet {
			r.kill()
		}
		p.judged(slots)
		t.Logf("%d holdings of berth, %d of the client, %d kills", p.begun(berthSide), p.begun(pythonSide), kills)
	})
}

func ended(r *runner) bool {
	select {
	case <-r.Done():
		return true
	default:
		return false
	}
}

const long = 1000 * time.Second

func TestEitherSideObeysTheOthersResize(t *testing.T) {
	each(t, func(t *testing.T, naming string) {
		p := newPlace(t, naming, 1)
		first := p.berth(long)
		p.until("berth holds slot 1", func() bool { return p.begun(berthSide) == 1 })
		p.clientResizes(2)
		second := p.client(long, "")
		p.until("the client holds slot 2", func() bool { return second.printed("holding 2") })
		p.berthResizes("resize", "--slots", "1")
		p.until("the client has lost slot 2", func() bool { return second.printed("lost 2") })
		p.berthResizes("resize", "--slots", "2")
		p.until("the client holds slot 2 again", func() bool { return p.begun(pythonSide) == 2 })
		p.clientResizes(0)
		p.until("berth has lost slot 1", func() bool { return first.printed("the slot was removed") })
		p.until("the client has lost its slot too", func() bool { return p.clientLost(second) == 2 })
		p.judged(2)
	})
}

func (p *place) clientLost(r *runner) int {
	all, _ := os.ReadFile(p.log(r.n))
	return strings.Count(string(all), "lost 2")
}

// A supervisor that is stopped cannot notice that its B is gone: the guard ends the command by the deadline, which a
// successor has to wait for. One that does not wait is caught, so the judge looks.
func TestSuccessorThatDoesNotWaitIsCaught(t *testing.T) {
	t.Parallel()
	for delay, caught := range map[string]bool{"": false, "0": true} {
		t.Run("delay"+delay, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, "N-A-L", 1)
			p.heartbeat = 3
			first := p.berth(long)
			p.until("berth holds the slot", func() bool { return p.begun(berthSide) == 1 })
			p.client(long, delay)
			first.signal(syscall.SIGSTOP)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := shared.DeleteQueue(ctx, "/", p.name+"-B-1"); err != nil {
				t.Fatal(err)
			}
			p.until("the client holds the slot", func() bool { return p.begun(pythonSide) == 1 })
			// By then the command is dead, whatever its supervisor does.
			p.until("the command is dead", func() bool {
				before := judge.Runs(p.lives())[0].Until
				time.Sleep(100 * time.Millisecond)
				return judge.Runs(p.lives())[0].Until == before
			})
			if problems := p.problems(1); (len(problems) > 0) != caught {
				t.Errorf("the judge finds %q", problems)
			}
		})
	}
}
