package faults

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/prover/history"
	"berth/test/bench/measure"
	"berth/test/bench/report"
	"berth/test/brokertest"
)

// absence is how long a node is away: longer than it takes a waiter to look by itself, and
// to wait for a holder's end.
const absence = 25 * time.Second

// loss is a cluster of three nodes that loses one, and gets it back. Every berth knows
// all three; the holder is connected to node 0, the others to node 2. The lock was made on
// its home: there are its queues, but for B, or the leaders of those that are on all nodes.
type loss struct {
	name       string
	way        way
	home, lost int
	host       bool // the holder's host is lost as well
	patient    bool // berth has its own timings, not short ones
	often      int  // how many times as often as others it is tried; default: 1

	// The node is away for as long as that: from the first to the second, more each time that it is tried. Default:
	// absence.
	away [2]time.Duration
}

var losses = []loss{
	{name: "holder's node killed", way: killed, home: 1, lost: 0, often: 2},
	{name: "home killed", way: killed, home: 1, lost: 1},
	{name: "holder's node killed, which is the home", way: killed, home: 0, lost: 0},
	{name: "holder's node killed, and its berth", way: killed, home: 1, lost: 0, host: true},
	{name: "holder's node stopped", way: stopped, home: 1, lost: 0},
	{name: "home stopped", way: stopped, home: 1, lost: 1},
	{name: "holder's node cut off from the others", way: cutOff, home: 1, lost: 0},
	{name: "the same for 1 to 12 s, and not started anew", way: cutShort, home: 1, lost: 0, often: 2,
		away: [2]time.Duration{time.Second, 12 * time.Second}},
	{name: "the same for 1 to 3 s, with berth's own timings", way: cutShort, home: 1, lost: 0, patient: true,
		away: [2]time.Duration{time.Second, 3 * time.Second}},
	{name: "rolling restart of all nodes", way: rolled, home: 1, away: [2]time.Duration{time.Second, time.Second}},
}

// way is one in which a node is lost, and comes back.
type way struct {
	lose, back func(c *brokertest.Cluster, node *brokertest.Broker) error

	// For how long, once the node is back, it may take until all slots have commands. With anew the holder's node, which
	// has B, is then started again.
	limit time.Duration
	anew  bool
}

var (
	killed = way{
		lose: func(_ *brokertest.Cluster, node *brokertest.Broker) error { return node.Kill9() },
		back: func(_ *brokertest.Cluster, node *brokertest.Broker) error {
			if err := node.Restart(context.Background()); err != nil {
				return err
			}
			_, err := node.PID(context.Background()) // it answers clients a moment before all of it has started
			return err
		},
	}
	stopped = way{
		lose:  func(_ *brokertest.Cluster, node *brokertest.Broker) error { return node.Pause() },
		back:  func(_ *brokertest.Cluster, node *brokertest.Broker) error { return node.Continue() },
		limit: time.Minute, // net_ticktime: a consumer of a dead connection may be the active one
		anew:  true,
	}
	cutOff = way{
		lose: split3,
		back: func(c *brokertest.Cluster, node *brokertest.Broker) error { return c.Heal(context.Background(), node) },
	}
	cutShort = way{
		lose: split3,
		back: func(c *brokertest.Cluster, node *brokertest.Broker) error {
			return c.Rejoin(context.Background(), node)
		},
		limit: 20 * time.Second,
		anew:  true,
	}
	rolled = way{
		lose: func(c *brokertest.Cluster, _ *brokertest.Broker) error { return c.Roll(context.Background()) },
		back: func(*brokertest.Cluster, *brokertest.Broker) error { return nil },
	}
)

// split3 cuts a node off from both others. The minority pauses where the broker knows that: up to 4.2, without Khepri.
func split3(c *brokertest.Cluster, node *brokertest.Broker) error {
	for _, n := range c.Nodes {
		_, err := n.Eval(context.Background(), "application:set_env(rabbit, cluster_partition_handling, pause_minority)")
		if err != nil {
			return err
		}
	}
	return c.Split(context.Background(), node)
}

// onNodes are faults that strike nobody but berth and its connections.
var onNodes = []string{
	"silent partition", "reset", "reset of everybody", "reset and no way back", "supervisor killed",
	"one of two supervisors killed", "supervisor stopped and continued", "guard killed",
	"supervisor and guard killed at once", "successor killed, holder told to end at once",
	"successor cut off, holder told to end", "successor stopped for longer than a lease, holder told to end",
}

// replicas is a kind of lock, by where its queues are.
type replicas struct {
	name, kind string
	slots      int
	made       []string // flags of berth that makes it
}

var onQuorumQueues = []string{"--queue-type", quorum}

var placed = []replicas{
	{name: "mutex", kind: "mutex", slots: 1},
	{name: "semaphore of 2", kind: "semaphore", slots: 2},
	{name: "token semaphore of 1", kind: tokens, slots: 1},
	{name: "quorum: mutex", kind: "mutex", slots: 1, made: onQuorumQueues},
	{name: "quorum: semaphore of 2", kind: "semaphore", slots: 2, made: onQuorumQueues},
	{name: "quorum: persistent mutex", kind: "persistent-mutex", slots: 1, made: onQuorumQueues},
	{name: "quorum: token semaphore of 1", kind: tokens, slots: 1, made: onQuorumQueues},
}

func (k replicas) stage(c *brokertest.Cluster, timings []string) stage {
	st := stage{kind: k.kind, slots: k.slots, made: k.made, flags: slices.Clone(timings),
		nodes: []*brokertest.Broker{c.Nodes[0], c.Nodes[2]}}
	for _, node := range c.Nodes {
		st.flags = append(st.flags, "--broker", node.URL())
	}
	return st
}

// A lost node strikes a lock of each kind at once.
//
// fault: node
func TestLostOneOfThreeNodesMakesNothingOverlap(t *testing.T) {
	cluster := brokertest.NewCluster(t, 3)
	version := cluster.Nodes[0].Version()
	t.Logf("three nodes of RabbitMQ %s", version)
	for _, l := range losses {
		t.Run(l.name, func(t *testing.T) {
			var rows []*row
			for _, k := range placed {
				rows = append(rows, results.row(l.rowName(k), k.slots+2))
			}
			tries := rounds * max(1, l.often)
			for n := range tries {
				away := l.away[0] + (l.away[1]-l.away[0])*time.Duration(n)/time.Duration(max(1, tries-1))
				t.Run("", func(t *testing.T) { l.try(t, cluster, rows, cmp.Or(away, absence)) })
			}
		})
	}
	writeLosses(t, version)
}

func (l loss) rowName(k replicas) string { return k.name + ": " + l.name }

func (l loss) try(t *testing.T, c *brokertest.Cluster, rows []*row, away time.Duration) {
	var scenes []*scene
	timings := short
	if l.patient {
		timings = nil
	}
	for _, k := range placed {
		s := open(t, c.Nodes[l.home], k.stage(c, timings))
		if len(k.made) > 0 { // berth has them led by any node
			for _, queue := range []string{s.tokens(), s.queue("1-A"), s.queue("1-T")} {
				s.must(c.Nodes[l.home].LeadQueue(context.Background(), "/", queue))
			}
		}
		scenes = append(scenes, s)
	}
	if l.host {
		for _, s := range scenes {
			s.holder().signal(syscall.SIGSTOP) // it must not see the node die
		}
	}
	at := history.Now()
	if err := l.way.lose(c, c.Nodes[l.lost]); err != nil {
		t.Fatal(err)
	}
	if l.host {
		for _, s := range scenes {
			killBoth(s, s.holder())
		}
	}
	time.Sleep(away)
	if err := l.way.back(c, c.Nodes[l.lost]); err != nil {
		t.Fatal(err)
	}
	after := history.Now()
	if dead := awaitAlive(scenes, after, l.way.limit); l.way.anew && len(dead) > 0 {
		for _, i := range dead {
			rows[i].stuck++
		}
		t.Logf("%s is started again after %s", c.Nodes[0].Addr(), away)
		if err := c.Nodes[0].Restart(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range scenes {
		clean(t, s.conclude(rows[i], at, after))
	}
}

// awaitAlive waits until all slots have commands after the moment, and returns the scenes that have none at the limit.
func awaitAlive(scenes []*scene, after int64, limit time.Duration) (dead []int) {
	for over := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		dead = nil
		for i, s := range scenes {
			if !s.alive(after) {
				dead = append(dead, i)
			}
		}
		if len(dead) == 0 || time.Now().After(over) {
			return dead
		}
	}
}

// The holder is connected to one node, all others to another, and the queues have their leaders on the third.
func TestNoFaultOnThreeNodesMakesCommandsOverlap(t *testing.T) {
	c := brokertest.NewCluster(t, 3)
	for _, f := range on(quorum, tokens, named(t, onNodes...)) {
		f.name, f.stage.nodes = "three nodes, "+f.name, []*brokertest.Broker{c.Nodes[0], c.Nodes[2]}
		t.Run(f.name, func(t *testing.T) { f.tryOften(t, c.Nodes[1], 4) })
	}
}

// writeLosses writes what came of all losses into the page that FAULTS_PAGE names, if
// none was left out.
func writeLosses(t *testing.T, version string) {
	t.Helper()
	page := os.Getenv("FAULTS_PAGE")
	text, all := describe(version)
	if page == "" || !all || t.Failed() {
		t.Log(text)
		return
	}
	numbers := strings.Split(version, ".")
	if err := report.WriteText(strings.Join(numbers[:min(2, len(numbers))], "."), page, text); err != nil {
		t.Error(err)
	}
}

// describe returns a table of all losses, and whether all were tried.
func describe(version string) (text string, all bool) {
	head := []string{""}
	for _, k := range placed {
		head = append(head, k.name)
	}
	rows := [][]string{head}
	all = true
	tried, overlaps := 0, 0
	for _, l := range losses {
		cells := []string{l.name}
		for _, k := range placed {
			r := results.of(l.rowName(k))
			if r == nil {
				all = false
				r = &row{}
			}
			tried, overlaps = tried+r.runs, overlaps+r.overlaps
			cells = append(cells, r.afterLoss(l.away[1] > 0))
		}
		rows = append(rows, cells)
	}
	return fmt.Sprintf("RabbitMQ %s; %s; %s.\nCommands that overlapped, in %d losses: %d.\n\n%s", version,
		cmp.Or(os.Getenv("FAULTS_COMMIT"), "unknown commit"), measure.Machine(), tried, overlaps,
		report.Align(rows, 1)), all
}

// afterLoss says when the next command ran: median and longest. With timed it says so of all, otherwise of those that
// ran before the node was back.
func (r *row) afterLoss(timed bool) string {
	early := slices.DeleteFunc(slices.Sorted(slices.Values(r.next)), func(d time.Duration) bool {
		return !timed && d > absence
	})
	if timed {
		early = early[:max(0, len(early)-r.stuck)] // the longest: until the node was started again
	}
	var said []string
	add := func(n int, what string) {
		if n > 0 {
			said = append(said, fmt.Sprintf("%s: %d of %d", what, n, r.runs))
		}
	}
	add(r.kept, "runs on")
	add(len(early), fmt.Sprintf("%.1f s, %.1f s", median(early).Seconds(), longest(early).Seconds()))
	if !timed {
		add(len(r.next)-len(early)-r.stuck, "node back")
	}
	add(r.stuck, "node restarted")
	return strings.Join(said, "; ")
}
