package rabbit_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/lock"
	"berth/lock/rabbit"
	"berth/test/brokertest"
)

// shared is the broker of the tests that leave it as they found it: the first node of a cluster, which
// BERTH_TEST_NODES says the size of. It has one node otherwise.
var (
	shared  *brokertest.Broker
	cluster *brokertest.Cluster
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	nodes, err := strconv.Atoi(cmp.Or(os.Getenv("BERTH_TEST_NODES"), "1"))
	if err == nil {
		cluster, err = brokertest.StartCluster(context.Background(), nodes)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	shared = cluster.Nodes[0]
	// Those tests are parallel that wait most of the time, and leave the broker alone: the number of processors, which is
	// Go's own limit, does not matter to them. They run after all others.
	if err := flag.Set("test.parallel", "12"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := cluster.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// patience is how long a condition may take to come true. It only matters when
// a test is about to fail.
const patience = 30 * time.Second

var count atomic.Int64

// fresh returns a lock that no other test uses.
func fresh(kind lock.Kind) lock.ID {
	return lock.ID{Kind: kind, Name: fmt.Sprintf("lock %d", count.Add(1))}
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func backend(t testing.TB, cfg rabbit.Config) *rabbit.Backend {
	t.Helper()
	b, err := rabbit.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func at(urls ...string) rabbit.Config { return rabbit.Config{URLs: urls, Host: "here", PID: 7} }

// contender returns an unconnected contender on the broker.
func contender(t *testing.T, b *brokertest.Broker, id lock.ID) lock.Lock {
	t.Helper()
	l := backend(t, at(b.URL())).Lock(id)
	t.Cleanup(func() { l.Close() })
	return l
}

func connected(t *testing.T, b *brokertest.Broker, id lock.ID) lock.Lock {
	t.Helper()
	l := contender(t, b, id)
	// A busy broker may not answer the first time.
	succeeds(t, "connecting", func() error { return l.Connect(within(t)) })
	return l
}

// holder returns a contender with its slot.
func holder(t *testing.T, b *brokertest.Broker, id lock.ID) (lock.Lock, lock.Held) {
	t.Helper()
	l := connected(t, b, id)
	h, err := l.Acquire(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return l, h
}

// acquire is an attempt as a supervisor makes it: one whose connection is of no use, as
// under an alarm that began after it had published, connects again.
func acquire(t *testing.T, l lock.Lock) (lock.Held, error) {
	t.Helper()
	h, err := l.Acquire(within(t))
	for end := time.Now().Add(patience); errors.Is(err, lock.ErrUnreachable) && time.Now().Before(end); {
		must(t, l.Connect(within(t)))
		h, err = l.Acquire(within(t))
	}
	return h, err
}

// resize gives the lock so many slots, until the test ends.
func resize(t testing.TB, b *brokertest.Broker, id lock.ID, slots int) {
	t.Helper()
	a := backend(t, at(b.URL())).Administrator(id)
	defer a.Close()
	if _, _, err := a.Resize(within(t), 0, func(int) (int, error) { return slots, nil }); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until something is so. To look takes processor time: the longer it
// was waited for, the longer it waits for the next look.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	began := time.Now()
	for !is() {
		waited := time.Since(began)
		if waited > patience {
			t.Fatalf("not within %s: %s", patience, what)
		}
		time.Sleep(min(max(waited/8, 5*time.Millisecond), 100*time.Millisecond))
	}
}

// proven proves that the slot is held, as a supervisor does.
func proven(ctx context.Context, h lock.Held) error {
	err := h.Verify(ctx)
	if errors.Is(err, lock.ErrInDoubt) {
		err = h.Reclaim(ctx)
	}
	return err
}

func lost(t *testing.T, h lock.Held) error {
	t.Helper()
	select {
	case <-h.Lost():
		return h.Cause()
	case <-within(t).Done():
		t.Fatal("the loss was not noticed")
		return nil
	}
}

// Ledger and batons stay when nobody holds the lock, and do not count.
func queues(t *testing.T, b *brokertest.Broker, id lock.ID) []string {
	t.Helper()
	all, err := b.Queues(within(t), "/")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, q := range all {
		if strings.HasSuffix(q.Name, "-T") || strings.HasSuffix(q.Name, "-W") {
			continue
		}
		if q.Name == id.Name || strings.HasPrefix(q.Name, id.Name+"-") {
			names = append(names, q.Name)
		}
	}
	slices.Sort(names) // the broker's own order changes when its table grows
	return names
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
