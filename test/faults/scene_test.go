package faults

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/prover/history"
	"berth/prover/judge"
	"berth/prover/witness"
	"berth/test/brokertest"
)

// short are timings that do not make a fault last longer than it must: lease 2 s.
var short = []string{"--heartbeat", "1s", "--verify-interval", "200ms", "--verify-timeout", "600ms",
	"--loss", "TERM 300ms, KILL", "--stop", "TERM 300ms, KILL"}

// stage is what a scene is played on. The zero value of a field will do.
type stage struct {
	binary      string   // default: the berth of this tree
	every       []string // binaries that contenders have in turn; default: binary
	contenders  int      // default, and least: two more than there are slots
	flags       []string // of berth run, beside the lock and the broker
	mode        string   // of the witness; default: plain
	kind        string   // of the lock; default: mutex
	protocol    string   // default: full
	slots       int      // of a semaphore; default: 1
	made        []string // flags of berth that makes a semaphore
	firstUse    bool     // nobody has ever held the lock
	shortLeases bool     // the berth of this tree, which knows short leases alone: a record written again says the longest
	namespaces  bool     // every contender has a network namespace of its own
	broken      bool     // on purpose: its line need not work any more

	// Another broker in the list of the first contender.
	other *brokertest.Broker

	// Which broker the nth contender is connected to, the last for all further ones.
	// Default: the scene's.
	nodes []*brokertest.Broker
}

// node returns which broker the nth contender is connected to, from 0.
func (st stage) node(n int, otherwise *brokertest.Broker) *brokertest.Broker {
	if len(st.nodes) == 0 {
		return otherwise
	}
	return st.nodes[min(n, len(st.nodes)-1)]
}

// scene is one lock, those who contend for it, and what their commands wrote. The
// first contenders hold its slots when the scene begins. One has been the
// successor for a while, and the others are in line behind it.
type scene struct {
	t      testing.TB
	stage  stage
	broker *brokertest.Broker
	lock   string
	dir    string // records are in it, and nothing else
	logs   string
	all    []*contender

	successor *contender // when the scene began
}

func open(t testing.TB, broker *brokertest.Broker, st stage) *scene {
	t.Helper()
	if st.shortLeases {
		st.binary = built(t, ofShortLeases)
	}
	if st.binary == "" {
		st.binary = binary
	}
	if st.mode == "" {
		st.mode = "plain"
	}
	st.kind = cmp.Or(st.kind, "mutex")
	st.slots = max(1, st.slots)
	st.contenders = max(st.slots+2, st.contenders)
	s := &scene{
		t: t, stage: st, broker: broker, dir: t.TempDir(), logs: t.TempDir(),
		lock: fmt.Sprintf("f%d-%dx", os.Getpid(), sequence.Add(1)),
	}
	s.create()
	if !st.firstUse && st.protocol != plainProtocol {
		s.once()
	}
	for n := range st.slots {
		s.join()
		s.await("the first commands run", func() bool { return s.began() == n+1 })
	}
	for n := range st.contenders - st.slots {
		if n < 2 { // the first waiter comes when all is calm, and before the others
			time.Sleep(settling / 4)
		}
		s.awaitWaiting(s.join(), 1)
	}
	if st.kind != tokens && !st.onQuorumQueues() && st.protocol != plainProtocol {
		s.awaitBaton()
	}
	time.Sleep(settling)
	s.successor = s.findSuccessor()
	return s
}

// settling is how long waiters are left alone, so that they are as ready as they will
// ever be. What they do meanwhile is no business of the suite.
const settling = time.Second

// once has every slot held for a moment, so that there are ledgers: a holder that
// has just created one does not rely on it yet.
func (s *scene) once() {
	s.t.Helper()
	line := []string{"true"}
	for range s.stage.slots { // one within the other, so that they hold at the same time
		line = append([]string{binary, "run", "--broker", s.broker.URL(), "--timeout", "30s",
			"--" + s.stage.kind, s.lock, "--"},
			line...)
	}
	s.administer(line[1:]...)
}

// awaitBaton waits until the holder keeps a baton, for a while: it is a hint, and a
// lock works without it. A holder makes one a moment after its command has
// started; one who dies before that leaves waiters to look by themselves, which
// they do less and less often.
func (s *scene) awaitBaton() {
	s.t.Helper()
	const enough = 3 * time.Second
	for over := time.Now().Add(enough); time.Now().Before(over); time.Sleep(10 * time.Millisecond) {
		queues, err := s.broker.Queues(context.Background(), "/")
		if err != nil {
			s.t.Fatal(err)
		}
		for _, q := range queues {
			if q.Name == s.lock+"-W" && q.Unacked > 0 {
				return
			}
		}
	}
	s.t.Logf("no baton is kept for lock %s after %s", s.lock, enough)
}

func (s *scene) holder() *contender { return s.all[0] }

// findSuccessor returns the waiter that says that it is the successor; else the first one.
func (s *scene) findSuccessor() *contender {
	waiters := s.all[s.stage.slots:]
	for _, c := range waiters {
		if c.logged("next in line") > 0 {
			return c
		}
	}
	return waiters[0]
}

// join starts one more contender.
func (s *scene) join() *contender {
	s.t.Helper()
	n := sequence.Add(1)
	c := &contender{
		t: s.t, name: fmt.Sprint(n), mark: fmt.Sprintf("%s.%d.", s.lock, n),
		log: filepath.Join(s.logs, fmt.Sprint(n)), done: make(chan struct{}),
	}
	host := "127.0.0.1"
	if s.stage.namespaces {
		c.net = newNamespace(s.t)
		host = c.net.local
	}
	broker := s.stage.node(len(s.all), s.broker)
	c.relay = newRelay(s.t, host, broker.Addr())
	where, err := url.Parse(broker.URL())
	if err != nil {
		s.t.Fatal(err)
	}
	where.Host = c.relay.addr()
	args := append([]string{"--broker", where.String(), "--" + s.stage.kind, s.lock}, s.stage.flags...)
	if s.stage.other != nil && len(s.all) == 0 {
		args = append(args, "--broker", s.stage.other.URL())
	}
	berth := s.stage.binary
	if every := s.stage.every; len(every) > 0 {
		berth = every[len(s.all)%len(every)]
	}
	c.launch(berth, args, append(s.environment(), "WITNESS_MODE="+s.stage.mode, "WITNESS_DIR="+s.dir))
	s.all = append(s.all, c)
	s.t.Cleanup(func() { // also if the test fails before its end
		if !c.ended() {
			c.end()
		}
		if s.t.Failed() || os.Getenv("FAULTS_LOGS") != "" {
			text, _ := os.ReadFile(c.log)
			s.t.Logf("berth %s, pid %d, said:\n%s", c.name, c.pid(), text)
		}
	})
	return c
}

// environment is that of every berth of the scene.
func (s *scene) environment() []string {
	all := append(ownEnvironment(), "BERTH_PROTOCOL="+cmp.Or(s.stage.protocol, "full"))
	if s.stage.kind == "mutex" && s.stage.onQuorumQueues() { // nobody makes it but those who run commands
		all = append(all, "BERTH_QUEUE_TYPE="+quorum)
	}
	return all
}

// onQuorumQueues reports whether the queues of the lock are on several nodes.
func (s stage) onQuorumQueues() bool { return slices.Contains(s.made, quorum) }

// create makes the lock, or what is missing of it.
func (s *scene) create() {
	s.t.Helper()
	if s.stage.kind == "mutex" {
		return // its berths do that
	}
	line := []string{s.stage.kind, "create", s.lock, "--slots", fmt.Sprint(s.stage.slots)}
	if s.stage.kind == "persistent-mutex" {
		line = []string{s.stage.kind, "enable", s.lock}
	}
	s.administer(append(line, s.stage.made...)...)
}

// administer runs the berth of this tree and waits for its end.
func (s *scene) administer(args ...string) {
	s.t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env = append(s.environment(), "BERTH_BROKER="+s.broker.URL())
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Errorf("berth %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// await waits for what has to happen.
func (s *scene) await(what string, happened func() bool) {
	s.t.Helper()
	for over := time.Now().Add(patience); !happened(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(over) {
			s.t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// awaitWaiting waits until a contender has said n times that it waits.
func (s *scene) awaitWaiting(c *contender, n int) {
	s.t.Helper()
	s.await("berth "+c.name+" waits", func() bool { return c.waited() >= n })
}

// waited returns how often a contender has said that it waits, in the words of now or in those of before.
func (c *contender) waited() int {
	return c.logged("waiting: held by others") + c.logged("waiting: all slots are held")
}

// lives returns what was written down so far.
func (s *scene) lives() history.History {
	s.t.Helper()
	lives, err := witness.Read(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	return lives
}

// runs returns the commands that were run so far, in order of their start.
func (s *scene) runs() []judge.Run {
	s.t.Helper()
	return judge.Runs(s.lives())
}

// began returns how many commands have been started so far.
func (s *scene) began() int { return len(s.runs()) }

// alive reports whether the commands of all slots have given a sign of life after the
// moment.
func (s *scene) alive(after int64) bool {
	slots := map[int]bool{}
	for _, r := range s.runs() {
		if r.Until > after {
			slots[r.Slot] = true
		}
	}
	return len(slots) >= s.stage.slots
}

// nextRuns reports whether a command has begun after the moment.
func (s *scene) nextRuns(after int64) bool {
	_, began := next(s.runs(), after)
	return began
}

// handOver tells the berth whose command was started last to end, and waits until the
// command of another one runs: the line has to work after every fault.
func (s *scene) handOver() {
	s.t.Helper()
	for len(s.living()) <= s.stage.slots {
		s.contend()
	}
	at := history.Now()
	if c := s.running(); !c.ended() {
		c.signal(syscall.SIGTERM)
	}
	s.await("the lock is handed over once more", func() bool { return s.nextRuns(at) })
}

// contend has one more contender wait, or run its command.
func (s *scene) contend() {
	s.t.Helper()
	c := s.join()
	s.await("berth "+c.name+" waits or runs its command", func() bool {
		return c.waited()+c.logged("slot held, command started") > 0
	})
}

// living returns the contenders that have not ended.
func (s *scene) living() []*contender {
	return slices.DeleteFunc(slices.Clone(s.all), (*contender).ended)
}

// running returns the contender whose command was started last.
func (s *scene) running() *contender {
	s.t.Helper()
	last := slices.MaxFunc(s.runs(), func(a, b judge.Run) int { return cmp.Compare(a.At, b.At) })
	i := slices.IndexFunc(s.all, func(c *contender) bool { return c.name == last.Client })
	if i < 0 {
		s.t.Fatalf("no contender has run %s", last)
	}
	return s.all[i]
}

// end ends all contenders and judges.
func (s *scene) end() verdict {
	s.t.Helper()
	// The waiters first, so that nobody starts a command only to be ended.
	for i := len(s.all) - 1; i >= 0; i-- {
		s.all[i].end()
	}
	return judged(s.lives(), s.stage.slots)
}
