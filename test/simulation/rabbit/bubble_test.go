//go:build simulation

package rabbit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// amqp091-go works with it in a bubble, unchanged: an hour passes in no time, and a client that falls silent loses what it
// has between two and three heartbeats later.
func TestClientInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := New(Config{Wait: synctest.Wait, Log: t.Logf})
		defer cluster.Close()
		holder, ch := open(t, cluster, "holder")
		if _, err := ch.QueueDeclare("B", false, false, true, false, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if q, _ := cluster.Queue("B"); q.Owner == 0 {
			t.Fatalf("after an hour it is %+v", q)
		}
		holder.stop()
		began := time.Now()
		for {
			time.Sleep(10 * time.Millisecond)
			if _, found := cluster.Queue("B"); !found {
				break
			}
		}
		if took := time.Since(began); took < 9*time.Second || took > 15100*time.Millisecond {
			t.Errorf("a silent client with heartbeats of 5 s loses its queue after %s", took)
		}
		holder.Close()
	})
}

// A consumer that reaches its queue only once its node was killed, because the cluster was split, does not stay there.
func TestNoConsumerStaysWithoutItsConnection(t *testing.T) {
	for _, version := range versions {
		synctest.Test(t, func(t *testing.T) {
			cluster := New(Config{Version: version, Nodes: 3, Wait: synctest.Wait})
			defer cluster.Close()
			conn, ch := open(t, cluster, "consumer")
			if _, err := ch.QueueDeclare("Q", true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
				t.Fatal(err)
			}
			cluster.Disconnect()
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = ch.Consume("Q", "c", false, false, false, false, nil)
			}()
			time.Sleep(50 * time.Millisecond)
			cluster.Kill(0)
			cluster.Heal()
			cluster.Start(0)
			time.Sleep(5 * time.Minute)
			if q, _ := cluster.Queue("Q"); q.Consumers > 0 {
				t.Errorf("RabbitMQ %s: %+v", version, q)
			}
			<-done
			conn.Close()
		})
	}
}

// The same events have the same outcome, in the same order and at the same times, whatever the scheduler does.
func TestSameSeedIsTheSameHistory(t *testing.T) {
	first := contend(t, 1)
	for range 20 {
		if again := contend(t, 1); again != first {
			t.Fatalf("one history is\n%s\nand another one\n%s", first, again)
		}
	}
	if contend(t, 2) == first {
		t.Error("another seed has the same history")
	}
}

// contend has clients contend for a queue, and returns what the broker has logged.
func contend(t *testing.T, seed uint64) (log string) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 0))
		began := time.Now()
		cluster := New(Config{Version: V4_3, Wait: synctest.Wait,
			Delay: func() time.Duration { return time.Duration(random.IntN(3000)) * time.Microsecond },
			Log: func(format string, args ...any) {
				log += fmt.Sprintf("%s %s\n", time.Since(began), fmt.Sprintf(format, args...))
			}})
		defer cluster.Close()
		var wg sync.WaitGroup
		for n := range 8 {
			conn, ch := open(t, cluster, fmt.Sprint(n))
			wg.Go(func() {
				defer conn.Close()
				for range 20 {
					_, err := ch.QueueDeclare("B", false, false, true, false, nil)
					if err == nil {
						time.Sleep(10 * time.Millisecond)
						_, _ = ch.QueueDelete("B", false, false, false)
						continue
					}
					time.Sleep(time.Duration(n+1) * time.Millisecond)
					if ch, err = conn.Channel(); err != nil {
						return
					}
				}
			})
		}
		wg.Wait()
	})
	return log
}

// talker is a connection whose client can fall silent.
type talker struct {
	*amqp.Connection
	pipe *silencer
}

func (t *talker) stop() { t.pipe.silent.Lock() }

// silencer holds back what is written.
type silencer struct {
	net.Conn
	silent sync.Mutex
}

func (s *silencer) Write(data []byte) (int, error) {
	if !s.silent.TryLock() {
		return len(data), nil
	}
	defer s.silent.Unlock()
	return s.Conn.Write(data)
}

func open(t *testing.T, cluster *Cluster, name string) (*talker, *amqp.Channel) {
	t.Helper()
	made := &talker{}
	properties := amqp.NewConnectionProperties()
	properties.SetClientConnectionName(name)
	conn, err := amqp.DialConfig("amqp://guest:guest@simulated/", amqp.Config{Heartbeat: 5 * time.Second,
		Properties: properties, Dial: func(string, string) (net.Conn, error) {
			pipe, err := cluster.Dial(0)
			made.pipe = &silencer{Conn: pipe}
			return made.pipe, err
		}})
	if err != nil {
		t.Fatal(err)
	}
	made.Connection = conn
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return made, ch
}
