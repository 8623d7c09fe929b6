package local

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"

	"berth/lock"
)

// Tests start this binary again, as another process that has a part to play.
const (
	roleVariable = "LOCAL_TEST_ROLE"
	dirVariable  = "LOCAL_TEST_DIR"
)

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		goleak.VerifyTestMain(m)
	case "keeper": // as a guard: lives until the end of its input
		_, _ = io.Copy(io.Discard, os.Stdin)
	default:
		if err := supervise(role == "holder with handover"); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
}

// supervise holds the mutex, starts a keeper, says so, and lives until it is
// killed, but not longer than its keeper.
func supervise(handover bool) error {
	b, err := New(Config{Dir: os.Getenv(dirVariable)})
	if err != nil {
		return err
	}
	l := b.Lock(lock.ID{Kind: lock.Mutex, Name: "m"})
	if err := l.Connect(context.Background()); err != nil {
		return err
	}
	held, err := l.Acquire(context.Background())
	if err != nil {
		return err
	}
	keeper := exec.Command(os.Args[0])
	keeper.Env = append(os.Environ(), roleVariable+"=keeper")
	keeper.Stdin = os.Stdin
	if handover {
		keeper.ExtraFiles = held.Handover().Files
	}
	if err := keeper.Start(); err != nil {
		return err
	}
	fmt.Println("holding")
	return keeper.Wait()
}
