package rabbit_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock"
	"berth/lock/rabbit"
)

// Who may not take part looks from time to time, and says so once, however often
// it connects.
func TestWaiterWithoutBatonsSaysSoOnce(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	_, h := holding(t, id, long)
	first := waiting(t, id)
	awaitSuccessor(t, id)
	must(t, shared.AddUser(within(t), "unwoken", "right"))
	pattern := "^" + id.Name + "-[0-9]+-[ABT]$"
	must(t, shared.SetPermissions(within(t), "unwoken", "/", pattern, ".*", pattern))
	var saying sync.Mutex
	var said bytes.Buffer
	cfg := at(shared.URLFor("unwoken", "right", "/"))
	cfg.Host = "elsewhere"
	cfg.Log = hclog.New(&hclog.LoggerOptions{Output: &said, Mutex: &saying})
	w := backend(t, cfg).Lock(id)
	t.Cleanup(func() { w.Close() })
	for range 3 {
		must(t, w.Connect(within(t)))
		for range 5 {
			if _, err := w.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
				t.Fatal(err)
			}
			must(t, w.Wait(within(t), 50*time.Millisecond))
		}
		n, err := shared.CloseConnections(within(t), "@elsewhere")
		if err != nil || n == 0 {
			t.Fatalf("%d connections closed, %v", n, err)
		}
		succeeds(t, "the end of the connection", func() error {
			if err := w.Wait(within(t), time.Millisecond); err == nil {
				return errors.New("it works")
			}
			return nil
		})
	}
	must(t, h.Release(within(t)))
	must(t, <-first)
	saying.Lock()
	defer saying.Unlock()
	if n := strings.Count(said.String(), "cannot be woken"); n != 1 {
		t.Errorf("said %d times:\n%s", n, said.String())
	}
}

// A baton that reaches a contender which may not use the slot is for others.
func TestWaiterWithoutPermissionPassesTheBatonOn(t *testing.T) {
	t.Parallel()
	for _, kind := range []lock.Kind{lock.Mutex, lock.Semaphore} {
		id := fresh(kind)
		if kind == lock.Semaphore {
			resize(t, shared, id, 1)
		}
		_, h := holding(t, id, long)
		next := connected(t, shared, id)
		if _, err := next.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
			t.Fatal(err)
		}
		rabbit.LookSeldom(next)
		first := untilWoken(t, next)
		awaitBaton(t, id)
		must(t, shared.AddUser(within(t), "no ledger", "right"))
		must(t, shared.SetPermissions(within(t), "no ledger", "/", ".*", ".*", "^(.*-(A|B|W)|"+id.Name+")$"))
		barred := backend(t, at(shared.URLFor("no ledger", "right", "/"))).Lock(id)
		t.Cleanup(func() { barred.Close() })
		must(t, barred.Connect(within(t)))
		if _, err := barred.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
			t.Fatal(err)
		}
		rabbit.LookSeldom(barred)
		ctx, cancel := context.WithCancel(within(t))
		refused := make(chan error, 1)
		go func() {
			err := barred.Wait(ctx, time.Hour)
			for err == nil {
				_, _ = barred.Acquire(ctx)
				err = barred.Wait(ctx, time.Hour)
			}
			refused <- err
		}()
		places := 2
		if kind == lock.Semaphore {
			places++ // of the successor, for what nobody wants
		}
		awaitPlaces(t, id, places)
		second := waiting(t, id)
		awaitPlaces(t, id, places+1)
		must(t, h.Release(within(t)))
		must(t, <-first)
		h, err := next.Acquire(within(t))
		must(t, err)
		rabbit.TakeBAfter(h, 0)
		must(t, h.Ready(within(t))) // the baton goes to the one that is barred, and on
		awaitBOf(t, id)
		awaitSuccessor(t, id)
		must(t, h.Release(within(t)))
		must(t, <-second)
		cancel()
		<-refused
	}
}
