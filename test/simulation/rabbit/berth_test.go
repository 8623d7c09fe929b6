//go:build simulation

package rabbit_test

import (
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/conformance"
	locks "berth/lock/rabbit"
	"berth/test/simulation/rabbit"
)

// berth does with simulated nodes, one and three, what each kind of lock has to do.
func TestLocksConformOnSimulatedNodes(t *testing.T) {
	for _, version := range []rabbit.Version{rabbit.V3_10, rabbit.V4_0, rabbit.V4_3} {
		for _, nodes := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, %d nodes", version, nodes), func(t *testing.T) {
				t.Parallel()
				cluster := rabbit.New(rabbit.Config{Version: version, Nodes: nodes})
				t.Cleanup(cluster.Close)
				urls := listen(t, cluster, nodes)
				t.Run("semaphore", func(t *testing.T) {
					conform(t, urls, lock.Semaphore, "", "%[1]s-%[2]d-A")
				})
				t.Run("token semaphore", func(t *testing.T) {
					conform(t, urls, lock.TokenSemaphore, "", "%[1]s-K-%[2]d-A")
				})
				t.Run("on quorum queues", func(t *testing.T) {
					conform(t, urls, lock.TokenSemaphore, locks.QueuesQuorum, "%[1]s-Q-%[2]d-A")
				})
			})
		}
	}
}

// listen has nodes listen until the test ends, and returns their URLs.
func listen(t *testing.T, cluster *rabbit.Cluster, nodes int) (urls []string) {
	for node := range nodes {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		t.Cleanup(func() { l.Close(); <-done })
		go func() {
			defer close(done)
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_ = cluster.Serve(node, conn)
			}
		}()
		urls = append(urls, "amqp://guest:guest@"+l.Addr().String()+"/")
	}
	return urls
}

func conform(t *testing.T, urls []string, kind lock.Kind, queues locks.QueueType, format string) {
	var count atomic.Int64
	open := func(heartbeat time.Duration) func(*testing.T) lock.Backend {
		return func(t *testing.T) lock.Backend {
			first := int(count.Add(1)) % len(urls)
			b, err := locks.New(locks.Config{URLs: slices.Concat(urls[first:], urls[:first]), Host: "here", PID: 7,
				QueueType: queues, Heartbeat: heartbeat})
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
	}
	conformance.Run(t, conformance.Harness{Kind: kind, Apart: queues == locks.QueuesQuorum, Open: open(time.Minute), OpenBrief: open(time.Second),
		AddSlot: func(t *testing.T, id lock.ID, slot int) { addSlot(t, urls[0], fmt.Sprintf(format, id.Name, slot)) },
		Pause:   10 * time.Millisecond})
}

// addSlot makes a queue as another implementation would.
func addSlot(t *testing.T, url, queue string) {
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err == nil {
		_, err = ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-max-length": 0, "x-overflow": "drop-head"})
	}
	if err != nil {
		t.Fatal(err)
	}
}
