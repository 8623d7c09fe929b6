package rabbit_test

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit"
)

// intrude makes a queue as an application does, until the test ends.
func intrude(t *testing.T, queue string, durable bool) {
	t.Helper()
	onChannel(t, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, durable, false, false, false, nil)
		return err
	})
	t.Cleanup(func() { must(t, shared.DeleteQueue(within(t), "/", queue)) })
}

// claimable reports whether an exclusive queue can be made, which goes again.
func claimable(t *testing.T, queue string) bool {
	t.Helper()
	conn, err := amqp.Dial(shared.URL())
	must(t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	must(t, err)
	if _, err := ch.QueueDeclare(queue, false, false, true, false, nil); err != nil {
		return false
	}
	_, err = ch.QueueDelete(queue, false, false, false)
	must(t, err)
	return true
}

// journal returns a configuration whose log is kept, and what counts how often
// something was said.
func journal() (cfg rabbit.Config, said func(text string) int) {
	var saying sync.Mutex
	var log bytes.Buffer
	cfg = at(shared.URL())
	cfg.Log = hclog.New(&hclog.LoggerOptions{Output: &log, Mutex: &saying})
	return cfg, func(text string) int {
		saying.Lock()
		defer saying.Unlock()
		return strings.Count(log.String(), text)
	}
}

// RabbitMQ answers the claim of a queue that is there and not exclusive as if
// somebody had claimed it.
func TestForeignQueueIsNotTakenForAnotherAdministrator(t *testing.T) {
	t.Parallel()
	for _, durable := range []bool{true, false} {
		for _, naming := range []rabbit.Naming{rabbit.NamingNLA, rabbit.NamingNAL} {
			id := fresh(lock.Semaphore)
			intrude(t, id.Name, durable)
			cfg := at(shared.URL())
			cfg.Naming = naming
			a := backend(t, cfg).Administrator(id)
			_, _, err := a.Resize(within(t), 0, func(int) (int, error) { return 1, nil })
			if !errors.Is(err, lock.ErrUnsafe) || errors.Is(err, lock.ErrBusy) {
				t.Errorf("%s, durable %t: %v", naming, durable, err)
			} else {
				readable(t, err, `queue "`+id.Name+`"`, "delete it, or give the lock another name")
			}
			must(t, a.Close())
		}
	}
}

// another makes a queue as another administrator or holder does, until the
// connection ends.
func another(t *testing.T, queue string) *amqp.Connection {
	t.Helper()
	conn, ch := stranger(t)
	_, err := ch.QueueDeclare(queue, false, false, true, false, nil)
	must(t, err)
	return conn
}

// stranger is a client of the broker that is no berth, until the test ends.
func stranger(t testing.TB) (*amqp.Connection, *amqp.Channel) {
	t.Helper()
	conn, err := amqp.Dial(shared.URL())
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	ch, err := conn.Channel()
	must(t, err)
	return conn, ch
}

func TestAdministratorThatWaitsForAnotherSaysSoOnceAndGoesOn(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Semaphore)
	other := another(t, id.Name)
	p := newTap(t)
	cfg, said := journal()
	cfg.URLs = []string{p.url()}
	a := backend(t, cfg).Administrator(id)
	ctx := within(t)
	done := make(chan error, 1)
	go func() {
		_, _, err := a.Resize(ctx, 0, func(int) (int, error) { return 0, nil })
		done <- err
	}()
	eventually(t, "some attempts", func() bool { return p.sum()["queue.declare"] > 4 })
	must(t, other.Close())
	must(t, <-done)
	if n := said("another administrator"); n != 1 {
		t.Errorf("said %d times", n)
	}
	must(t, a.Close())
	p.close()
}

func TestForeignQueueThatFollowsAnotherAdministratorIsNoticed(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Semaphore)
	other := another(t, id.Name)
	cfg, said := journal()
	a := backend(t, cfg).Administrator(id)
	ctx := within(t)
	done := make(chan error, 1)
	go func() {
		// A resize that is faster than the intruder is done, and is tried once more.
		var err error
		for err == nil {
			_, _, err = a.Resize(ctx, 0, func(int) (int, error) { return 0, nil })
		}
		done <- err
	}()
	eventually(t, "the other one is waited for", func() bool { return said("another administrator") > 0 })
	must(t, other.Close())
	succeeds(t, "intruding", func() error {
		conn, err := amqp.Dial(shared.URL())
		must(t, err)
		defer conn.Close()
		ch, err := conn.Channel()
		must(t, err)
		_, err = ch.QueueDeclare(id.Name, true, false, false, false, nil)
		return err
	})
	if err := <-done; !errors.Is(err, lock.ErrUnsafe) {
		t.Error(err)
	}
	must(t, a.Close())
	must(t, shared.DeleteQueue(within(t), "/", id.Name))
}

func TestInspectNamesForeignQueuesInThePlaceOfOurs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind   lock.Kind
		naming rabbit.Naming
		suffix string // of the foreign queue
		remedy string
	}{
		{lock.Mutex, rabbit.NamingNLA, "-1-B", "delete it, or give the lock another name"},
		{lock.Mutex, rabbit.NamingNAL, "", "or use --naming N-L-A"},
		{lock.Semaphore, rabbit.NamingNLA, "-1-B", "delete it, or give the lock another name"},
		{lock.Semaphore, rabbit.NamingNLA, "", "delete it, or give the lock another name"},
		{lock.PersistentMutex, rabbit.NamingNAL, "-B-1", "delete it, or give the lock another name"},
	} {
		id := fresh(c.kind)
		queue := id.Name + c.suffix
		intrude(t, queue, true)
		cfg := at(shared.URL())
		cfg.Naming = c.naming
		r, err := backend(t, cfg).Inspect(within(t), id)
		must(t, err)
		if len(r.Problems) != 1 || !errors.Is(r.Problems[0], lock.ErrUnsafe) {
			t.Errorf("%s, %s: %v", queue, c.naming, r.Problems)
			continue
		}
		readable(t, r.Problems[0], `queue "`+queue+`"`, c.remedy)
	}
	// In the default naming nobody needs the queue that is called as the mutex.
	id := fresh(lock.Mutex)
	intrude(t, id.Name, true)
	if r := inspect(t, id, shared.URL()); len(r.Problems) > 0 {
		t.Errorf("a queue that is in nobody's way: %v", r.Problems)
	}
}

func TestWaiterForAForeignQueueSaysSoOnce(t *testing.T) {
	t.Parallel()
	for naming, suffix := range map[rabbit.Naming]string{rabbit.NamingNLA: "-1-B", rabbit.NamingNAL: ""} {
		id := fresh(lock.Mutex)
		queue := id.Name + suffix
		onChannel(t, func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
			return err
		})
		cfg, said := journal()
		cfg.Naming = naming
		l := backend(t, cfg).Lock(id)
		t.Cleanup(func() { l.Close() })
		must(t, l.Connect(within(t)))
		for range 3 {
			if _, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
				t.Fatal(err)
			}
			must(t, l.Wait(within(t), time.Hour))
		}
		if n := said("not berth's"); n != 1 {
			t.Errorf("%s: said %d times", naming, n)
		}
		must(t, shared.DeleteQueue(within(t), "/", queue))
		h, err := l.Acquire(within(t))
		must(t, err)
		must(t, h.Release(within(t)))
	}
}

func TestHeldMutexIsNotTakenForAForeignQueue(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	_, h := holding(t, id, long)
	cfg, said := journal()
	w := refused(t, cfg, id)
	woken := untilWoken(t, w)
	awaitSuccessor(t, id) // it has looked before
	must(t, h.Release(within(t)))
	must(t, <-woken)
	_, err := w.Acquire(within(t))
	must(t, err)
	if n := said("not berth's"); n != 0 {
		t.Errorf("said %d times", n)
	}
}

// A single attempt is not told that somebody holds the lock.
func TestSingleAttemptTellsAForeignQueueFromAHolder(t *testing.T) {
	t.Parallel()
	for _, kind := range []lock.Kind{lock.Mutex, lock.PersistentMutex} {
		id := fresh(kind)
		if kind.Administered() {
			resize(t, shared, id, 1)
		}
		cfg := at(shared.URL())
		cfg.Contention.Once = true
		try := func() error {
			l := backend(t, cfg).Lock(id)
			defer l.Close()
			must(t, l.Connect(within(t)))
			_, err := l.Acquire(within(t))
			return err
		}
		l, _ := holder(t, shared, id)
		if err := try(); !errors.Is(err, lock.ErrFull) {
			t.Errorf("%s that is held: %v", kind, err)
		}
		vanish(t, l)
		// RabbitMQ 4.3 refuses its name for a moment after that, although it is not in its list of queues any more.
		eventually(t, "the name of the holder's queue can be used", func() bool { return claimable(t, id.Name+"-1-B") })
		intrude(t, id.Name+"-1-B", true)
		if err := try(); !errors.Is(err, lock.ErrUnsafe) {
			t.Errorf("%s with a foreign queue: %v", kind, err)
		} else {
			readable(t, err, `queue "`+id.Name+`-1-B"`, "delete it")
		}
	}
}
