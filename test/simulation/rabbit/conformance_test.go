//go:build simulation

package rabbit

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// Scenarios on a real broker wait most of the time.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// The simulated broker says in every scenario what real ones have said.
func TestSimulatedBrokerAnswersAsRealOnes(t *testing.T) {
	for _, version := range versions {
		t.Run(version.short(), func(t *testing.T) {
			for _, s := range scenarios {
				if version < s.since {
					continue
				}
				t.Run(s.name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { simulate(t, version, s) })
				})
			}
		})
	}
}

func simulate(t *testing.T, version Version, s scenario) {
	cluster := New(Config{Version: version, Nodes: s.nodes, Step: time.Microsecond, Log: t.Logf})
	defer cluster.Close()
	w := newWorld(t, version, s)
	w.operator = &simulatedOperator{cluster}
	w.dial = cluster.Dial
	w.quiet = func(func() int, int) {
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
	}
	s.run(w)
	for _, c := range w.clients {
		c.conn.Close()
	}
	compare(t, s, version, w.steps)
}

func newWorld(t *testing.T, version Version, s scenario) *world {
	return &world{t: t, version: version, prefix: strings.ReplaceAll(s.name, " ", "-")}
}

// compare compares steps with what is written down.
func compare(t *testing.T, s scenario, version Version, steps [][]string) {
	t.Helper()
	wanted := read(t, s).of(version)
	if wanted == nil {
		t.Fatalf("nothing is written down; go test -tags brokers -run Real -update does, with the real broker")
	}
	differ := false
	for i := range max(len(wanted), len(steps)) {
		var is, want string
		if i < len(steps) {
			is = strings.Join(steps[i], "\n")
		}
		if i < len(wanted) {
			want = strings.Join(wanted[i], "\n")
		}
		if is != want {
			t.Errorf("step %d: the broker answers\n%s\nand has answered\n%s", i+1, is, want)
			differ = true
		}
	}
	if differ && testing.Verbose() {
		for i, step := range steps {
			t.Logf("%d %s", i+1, strings.Join(step, "\n"))
		}
	}
}

func path(s scenario) string {
	return filepath.Join("testdata", strings.ReplaceAll(s.name, " ", "-")+".txt")
}

func read(t *testing.T, s scenario) transcript {
	t.Helper()
	text, err := os.ReadFile(path(s))
	if err != nil {
		t.Fatal(err)
	}
	return parse(string(text))
}

// simulatedOperator looks after a simulated node.
type simulatedOperator struct{ *Cluster }

func (o *simulatedOperator) deleteQueue(name string) {
	o.onQueue(name, func(q *queue) bool { q.delete("an operator insists"); return true })
}
func (o *simulatedOperator) purge(name string)    { o.PurgeQueue(name) }
func (o *simulatedOperator) crash(name string)    { o.CrashQueue(name) }
func (o *simulatedOperator) lose(name string)     { o.LoseQueue(name) }
func (o *simulatedOperator) alarm(on bool)        { o.Alarm(on) }
func (o *simulatedOperator) diskAlarm(on bool)    { o.DiskAlarm(on) }
func (o *simulatedOperator) tag(name, tag string) { o.SetTags(name, tag) }
func (o *simulatedOperator) timeout(acknowledgement, tick time.Duration) {
	o.SetConsumerTimeout(acknowledgement, tick)
}
func (o *simulatedOperator) restart()         { o.Stop(0); o.Start(0) }
func (o *simulatedOperator) kill(node int)    { o.Kill(node) }
func (o *simulatedOperator) start(node int)   { o.Start(node) }
func (o *simulatedOperator) hang(node int)    { o.Hang(node) }
func (o *simulatedOperator) resume(node int)  { o.Resume(node) }
func (o *simulatedOperator) rejoin(alone int) { o.Heal() }
func (o *simulatedOperator) split(alone int) {
	var others []int
	for node := range 3 {
		if node != alone {
			others = append(others, node)
		}
	}
	o.Disconnect(others)
}
func (o *simulatedOperator) policy(pattern string, definition map[string]any) {
	o.SetPolicy(pattern, definition)
}
func (o *simulatedOperator) closeConnection(name string) {
	for _, one := range o.Connections() {
		if one.Name == name {
			o.CloseConnection(one.ID, "closed by an operator")
		}
	}
}
func (o *simulatedOperator) user(name, configure, write, read string) {
	o.SetUser(name, "secret")
	o.SetPermissions(name, configure, write, read)
}
