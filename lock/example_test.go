package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"berth/lock"
	"berth/lock/local"
)

// A function is the command here, and the lock is one of this host.
func Example() {
	dir, err := os.MkdirTemp("", "locks-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	backend, err := local.New(local.Config{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	l := backend.Lock(lock.ID{Kind: lock.Mutex, Name: "importer"})
	defer l.Close()

	ctx := context.Background()
	held, err := obtain(ctx, l)
	if err != nil {
		log.Fatal(err)
	}
	err = use(ctx, held, func(context.Context) error {
		fmt.Println("the only importer, in slot", held.Slot())
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// the only importer, in slot 1
	// error: <nil>
}

// obtain returns a slot as soon as one is free.
func obtain(ctx context.Context, l lock.Lock) (lock.Held, error) {
	if err := l.Connect(ctx); err != nil {
		return nil, err
	}
	for {
		held, err := l.Acquire(ctx)
		if !errors.Is(err, lock.ErrFull) {
			return held, err
		}
		if err := l.Wait(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

// use runs the command in the slot, and gives the slot back. The command's context ends at most four seconds after the
// beginning of the last proof. The rest of held.Lease is for the command to end in.
func use(ctx context.Context, held lock.Held, command func(context.Context) error) (err error) {
	defer func() { err = errors.Join(err, within(context.WithoutCancel(ctx), held.Release)) }()
	if err := held.Ready(ctx); err != nil {
		return err
	}
	running, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan error, 1)
	go func() { ended <- command(running) }()
	for {
		select {
		case err := <-ended:
			return err
		case <-held.Lost():
			err = held.Cause()
		case <-time.After(time.Second):
			err = within(ctx, held.Verify)
		}
		if errors.Is(err, lock.ErrInDoubt) {
			err = within(ctx, held.Reclaim)
		}
		if err != nil {
			end()
			return errors.Join(err, <-ended)
		}
	}
}

// within gives a call a second.
func within(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return call(ctx)
}
