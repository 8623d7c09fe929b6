package transport

import (
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/lock/rabbit/broker"
)

// Who waits is told why each time that the reason is another one. It begins with another node each time.
func TestSameFailuresAreTheSameTextWhereverItBegins(t *testing.T) {
	nodes, err := broker.ParseAll([]string{"amqp://127.0.0.1:1", "amqp://127.0.0.2:1", "amqp://127.0.0.3:1"})
	if err != nil {
		t.Fatal(err)
	}
	d := &Dialer{Brokers: nodes, Logins: broker.NewLogins(broker.Source{}, nodes), Log: hclog.NewNullLogger()}
	for _, only := range [][]broker.Node{nodes, nodes[1:2]} {
		to, texts := map[string]bool{}, map[string]bool{}
		for _, node := range only {
			to[node.URL()] = true
		}
		d.Confine(to)
		for n := range nodes {
			d.BeginWith(int32(n))
			_, err := d.Dial(t.Context(), "test")
			texts[err.Error()] = true
		}
		if len(texts) != 1 {
			t.Errorf("three attempts fail for %v", texts)
		}
	}
}
