//go:build simulation && brokers

package rabbit

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"berth/test/brokertest"
)

var update = flag.Bool("update", false, "write down what the real broker says")

// What is written down is what the real broker says: RabbitMQ 3.10, or that of BERTH_TEST_BROKER.
func TestRealBrokerAnswersAsWrittenDown(t *testing.T) {
	b := brokertest.New(t)
	version := versionOf(b)
	t.Run("group", func(t *testing.T) {
		for _, s := range scenarios {
			if s.alone || s.nodes > 0 || version < s.since {
				continue
			}
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				try(t, b, nil, version, s)
			})
		}
	})
	for _, s := range scenarios {
		if s.alone && s.nodes == 0 {
			t.Run(s.name, func(t *testing.T) { try(t, b, nil, version, s) })
		}
	}
}

func versionOf(b *brokertest.Broker) Version {
	switch {
	case b.Since(4, 3):
		return V4_3
	case b.Since(4, 0):
		return V4_0
	}
	return V3_10
}

// The same for three nodes, one of which is lost.
func TestRealClusterAnswersAsWrittenDown(t *testing.T) {
	if os.Getenv("BERTH_TEST_NODES") != "3" {
		t.Skip("it takes a minute: BERTH_TEST_NODES=3 does it")
	}
	for _, s := range scenarios {
		if s.nodes == 3 {
			t.Run(s.name, func(t *testing.T) {
				c := brokertest.NewCluster(t, 3)
				version := versionOf(c.Nodes[0])
				if version < s.since {
					t.Skip("it is of later versions")
				}
				try(t, c.Nodes[0], c, version, s)
			})
		}
	}
}

func try(t *testing.T, b *brokertest.Broker, cluster *brokertest.Cluster, version Version, s scenario) {
	w := newWorld(t, version, s)
	w.operator = &realOperator{t, b, cluster}
	w.dial = func(node int) (net.Conn, error) {
		if cluster != nil {
			return net.Dial("tcp", cluster.Nodes[node].Addr())
		}
		return net.Dial("tcp", b.Addr())
	}
	w.quiet = quietly
	if !*update {
		for _, step := range read(t, s).of(version) {
			w.expected = append(w.expected, len(step)-1)
		}
	}
	s.run(w)
	if *update {
		record(t, s, version, w.steps)
		return
	}
	compare(t, s, version, w.steps)
}

// quietly waits until as much was said as is expected, and a moment more.
func quietly(seen func() int, expected int) {
	const longest, pause, moment = 10 * time.Second, 2 * time.Millisecond, 30 * time.Millisecond
	if expected < 0 {
		time.Sleep(400 * time.Millisecond)
		return
	}
	for end := time.Now().Add(longest); seen() < expected && time.Now().Before(end); {
		time.Sleep(pause)
	}
	time.Sleep(moment)
}

func record(t *testing.T, s scenario, version Version, steps [][]string) {
	t.Helper()
	file := path(s)
	book := transcript{}
	if text, err := os.ReadFile(file); err == nil {
		book = parse(string(text))
	}
	book.set(version, steps)
	if err := os.WriteFile(file, []byte(book.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// realOperator looks after a real one.
type realOperator struct {
	t       *testing.T
	b       *brokertest.Broker
	cluster *brokertest.Cluster // nil: b is alone
}

func (o *realOperator) kill(node int)   { o.must(o.cluster.Nodes[node].Kill9()) }
func (o *realOperator) start(node int)  { o.must(o.cluster.Nodes[node].Restart(o.t.Context())) }
func (o *realOperator) hang(node int)   { o.must(o.cluster.Nodes[node].Pause()) }
func (o *realOperator) resume(node int) { o.must(o.cluster.Nodes[node].Continue()) }
func (o *realOperator) split(alone int) {
	o.must(o.cluster.Split(o.t.Context(), o.cluster.Nodes[alone]))
}
func (o *realOperator) rejoin(alone int) {
	o.must(o.cluster.Rejoin(o.t.Context(), o.cluster.Nodes[alone]))
}

func (o *realOperator) must(err error) {
	if err != nil {
		o.t.Error(err)
	}
}

func (o *realOperator) eval(code string) {
	_, err := o.b.Eval(context.Background(), code)
	o.must(err)
}

func (o *realOperator) deleteQueue(name string) { o.must(o.b.DeleteQueue(o.t.Context(), "/", name)) }
func (o *realOperator) purge(name string)       { o.must(o.b.PurgeQueue(o.t.Context(), "/", name)) }
func (o *realOperator) lose(name string)        { o.must(o.b.ForgetQueue(o.t.Context(), "/", name)) }
func (o *realOperator) restart()                { o.must(o.b.Restart(o.t.Context())) }
func (o *realOperator) crash(name string) {
	o.eval(fmt.Sprintf(`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<%q>>)), exit(amqqueue:get_pid(Q), kill).`, name))
}

func (o *realOperator) alarm(on bool) {
	if on {
		o.must(o.b.RaiseMemoryAlarm(o.t.Context()))
	} else {
		o.must(o.b.ClearMemoryAlarm(o.t.Context()))
	}
}

func (o *realOperator) diskAlarm(on bool) {
	if on {
		o.must(o.b.RaiseDiskAlarm(o.t.Context()))
	} else {
		o.must(o.b.ClearDiskAlarm(o.t.Context()))
	}
}

func (o *realOperator) timeout(acknowledgement, tick time.Duration) {
	o.eval(fmt.Sprintf(`application:set_env(rabbit, consumer_timeout, %d), application:set_env(rabbit, channel_tick_interval, %d).`,
		cmp.Or(acknowledgement, 30*time.Minute).Milliseconds(), cmp.Or(tick, time.Minute).Milliseconds()))
}

func (o *realOperator) tag(name, tag string) {
	o.eval(fmt.Sprintf(`ok = rabbit_auth_backend_internal:set_tags(<<%q>>, [%s], <<"operator">>).`, name, tag))
}

func (o *realOperator) closeConnection(name string) {
	_, err := o.b.CloseConnections(o.t.Context(), name)
	o.must(err)
}

func (o *realOperator) user(name, configure, write, read string) {
	o.must(o.b.AddUser(o.t.Context(), name, "secret"))
	o.must(o.b.SetPermissions(o.t.Context(), name, "/", configure, write, read))
}

func (o *realOperator) policy(pattern string, definition map[string]any) {
	name := fmt.Sprintf("<<%q>>", pattern)
	if definition == nil {
		o.eval(fmt.Sprintf(`rabbit_policy:delete(<<"/">>, %s, <<"operator">>).`, name))
		return
	}
	var terms []string
	for key, v := range definition {
		if text, ok := v.(string); ok {
			terms = append(terms, fmt.Sprintf("{<<%q>>, <<%q>>}", key, text))
		} else {
			terms = append(terms, fmt.Sprintf("{<<%q>>, %v}", key, v))
		}
	}
	o.eval(fmt.Sprintf(`ok = rabbit_policy:set(<<"/">>, %s, <<%q>>, [%s], 0, <<"queues">>, <<"operator">>).`, name, pattern,
		strings.Join(terms, ", ")))
}
