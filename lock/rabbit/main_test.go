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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/lock"
	"berth/lock/rabbit"
	"berth/test/brokertest"
)

// server is a RabbitMQ, real or simulated.
type server interface {
	Addr() string
	URL() string
	URLFor(user, password, vhost string) string
	Since(major, minor int) bool
	AddUser(ctx context.Context, user, password string) error
	SetPermissions(ctx context.Context, user, vhost, configure, write, read string) error
	Connections(ctx context.Context) ([]brokertest.Connection, error)
	CloseConnections(ctx context.Context, text string) (int, error)
	Queues(ctx context.Context, vhost string) ([]brokertest.Queue, error)
	Queue(ctx context.Context, vhost, name string) (brokertest.Queue, bool, error)
	DeleteQueue(ctx context.Context, vhost, name string) error
	ForgetQueue(ctx context.Context, vhost, name string) error
	PurgeQueue(ctx context.Context, vhost, name string) error
	RaiseMemoryAlarm(ctx context.Context) error
	ClearMemoryAlarm(ctx context.Context) error
	Pause() error
	Continue() error
	Kill9() error
	Restart(ctx context.Context) error
	RestartInPlace(ctx context.Context, stopped time.Duration) error
	Stop() error
}

// cluster is real: its first node, where BERTH_TEST_NODES asks for no more.
var cluster *brokertest.Cluster

// shared is the broker of the tests that leave it as they found it: the cluster's first node where a version of RabbitMQ
// or a cluster is asked for, and otherwise a simulated one, which costs a tenth of the time.
var shared server

// own has the broker of each test that does not use the shared one, by its name.
var own sync.Map

// on returns the broker of a test, or of the test that it is part of.
func on(t testing.TB) server {
	if b, found := own.Load(whole(t)); found {
		return b.(server)
	}
	if _, measures := t.(*testing.B); measures {
		return cluster.Nodes[0]
	}
	return shared
}

// whole is the name of the test that t is, or is part of.
func whole(t testing.TB) string {
	name, _, _ := strings.Cut(t.Name(), "/")
	return name
}

// onReal has a test use a real broker, which it leaves as it found it. The test calls it first.
func onReal(t testing.TB) { use(t, cluster.Nodes[0]) }

// spare are the real brokers of the tests that disturb theirs; nil: one that has not started yet.
var spare = func() chan *brokertest.Broker {
	c := make(chan *brokertest.Broker, 2)
	for range cap(c) {
		c <- nil
	}
	return c
}()

// disturb has a test use a real broker that nobody else uses. The test calls it first, and does not call Parallel.
func disturb(t *testing.T) {
	t.Helper()
	if !simulates() {
		return // tests that are not parallel run before all others
	}
	t.Parallel()
	b := <-spare
	if b == nil {
		var err error
		if b, err = brokertest.Start(context.Background()); err != nil {
			spare <- nil
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() { // who knows how it is
			must(t, b.Stop())
			b = nil
		}
		spare <- b
	})
	use(t, b)
}

// alone has a test use a simulated broker that nobody else uses. The test calls it first, and does not call Parallel.
func alone(t *testing.T) {
	t.Helper()
	if !simulates() {
		return
	}
	t.Parallel()
	b, err := simulate()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, b.Stop()) })
	use(t, b)
}

// simulates reports whether the shared broker is a simulated one.
func simulates() bool { return shared != server(cluster.Nodes[0]) }

func use(t testing.TB, b server) {
	own.Store(whole(t), b)
	t.Cleanup(func() { own.Delete(whole(t)) })
}

// node is the broker of a test that has called onReal.
func node(t testing.TB) *brokertest.Broker {
	t.Helper()
	b, ok := on(t).(*brokertest.Broker)
	if !ok {
		t.Fatal("the test needs a real broker: have it call onReal first")
	}
	return b
}

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
	if os.Getenv("BERTH_TEST_BROKER") == "" && nodes == 1 {
		dir, err := os.MkdirTemp("", "berth-simulated-")
		if err == nil {
			defer os.RemoveAll(dir)
			err = buildSimulated(dir)
		}
		if err == nil {
			shared, err = simulate()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, errors.Join(err, cluster.Stop()))
			return 1
		}
	}
	// Those tests are parallel that wait most of the time: the number of processors, which is Go's own limit, does not
	// matter to them. They run after all others. A real broker bears fewer.
	parallel := "12"
	if simulates() {
		parallel = "16"
	}
	if err := flag.Set("test.parallel", parallel); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err = cluster.Stop(); simulates() {
		err = errors.Join(err, shared.Stop())
	}
	for range cap(spare) {
		if b := <-spare; b != nil {
			err = errors.Join(err, b.Stop())
		}
	}
	if err != nil {
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
func contender(t *testing.T, b server, id lock.ID) lock.Lock {
	t.Helper()
	l := backend(t, at(b.URL())).Lock(id)
	t.Cleanup(func() { l.Close() })
	return l
}

func connected(t *testing.T, b server, id lock.ID) lock.Lock {
	t.Helper()
	l := contender(t, b, id)
	// A busy broker may not answer the first time.
	succeeds(t, "connecting", func() error { return l.Connect(within(t)) })
	return l
}

// holder returns a contender with its slot.
func holder(t *testing.T, b server, id lock.ID) (lock.Lock, lock.Held) {
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
func resize(t testing.TB, b server, id lock.ID, slots int) {
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
func queues(t *testing.T, b server, id lock.ID) []string {
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
