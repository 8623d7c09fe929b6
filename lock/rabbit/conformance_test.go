package rabbit_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/conformance"
	"berth/lock/rabbit"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	leftover := map[rabbit.Naming]string{rabbit.NamingNLA: "%[1]s-%[2]d-A", rabbit.NamingNAL: "%[1]s-A-%[2]d"}
	for naming, format := range leftover {
		if !thorough && naming == rabbit.NamingNAL {
			continue // the plain protocol conforms with these names
		}
		t.Run(string(naming), func(t *testing.T) {
			t.Parallel() // it waits, most of the time
			conformance.Run(t, harness(anywhere, lock.Semaphore, naming, "", format))
		})
	}
}

func TestTokenSemaphoresConform(t *testing.T) {
	t.Parallel()
	conformance.Run(t, harness(anywhere, lock.TokenSemaphore, rabbit.NamingNLA, "", "%[1]s-K-%[2]d-A"))
}

func TestReplicatedSemaphoresConform(t *testing.T) {
	t.Parallel()
	conformance.Run(t, harness(anywhere, lock.TokenSemaphore, rabbit.NamingNLA, rabbit.QueuesQuorum, "%[1]s-Q-%[2]d-A"))
}

// harness tests a kind of lock with several slots; format is that of the name of A.
func harness(urls func() []string, kind lock.Kind, naming rabbit.Naming, queues rabbit.QueueType, format string,
) conformance.Harness {
	return conformance.Harness{
		Kind:  kind,
		Apart: queues == rabbit.QueuesQuorum,
		Open: func(t *testing.T) lock.Backend {
			cfg := at(urls()...)
			cfg.Naming, cfg.QueueType = naming, queues
			cfg.Heartbeat = time.Minute // so that a needless wait for a lease fails
			return backend(t, cfg)
		},
		AddSlot: func(t *testing.T, id lock.ID, slot int) {
			declare(t, shared.URL(), fmt.Sprintf(format, id.Name, slot))
		},
		// A holder that ends without a word is waited for, for its lease.
		OpenBrief: func(t *testing.T) lock.Backend {
			cfg := at(urls()...)
			cfg.Naming, cfg.QueueType, cfg.Heartbeat = naming, queues, time.Second
			return backend(t, cfg)
		},
		Pause: 10 * time.Millisecond,
	}
}

// anywhere returns the URLs of all nodes of the cluster. Each time another one is the first.
func anywhere() []string {
	n := int(count.Add(1)) % len(cluster.Nodes)
	var urls []string
	for _, node := range slices.Concat(cluster.Nodes[n:], cluster.Nodes[:n]) {
		urls = append(urls, node.URL())
	}
	return urls
}

// declare makes a queue as another implementation of the protocol would.
func declare(t *testing.T, url, name string) {
	t.Helper()
	conn, err := amqp.Dial(url)
	must(t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	must(t, err)
	_, err = ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-max-length": 0, "x-overflow": "drop-head"})
	must(t, err)
}
