package cli

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/internal/config"
	"berth/lock"

	"github.com/urfave/cli/v2"
)

func TestActionEndsAtItsTimeLimit(t *testing.T) {
	ctx, release := actionContext(context.Background(), actionFlags{timeout: time.Millisecond})
	defer release()
	<-ctx.Done()
	if err := reason(ctx, lock.ErrBusy); Status(err) != ExitNotObtained || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, status %d", err, Status(err))
	}
}

func TestActionEndsOnASignalWithItsStatus(t *testing.T) {
	ctx, release := actionContext(context.Background(), actionFlags{wait: true})
	defer release()
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if err := reason(ctx, lock.ErrUnknown); Status(err) != ExitSignal+int(syscall.SIGTERM) {
		t.Errorf("got %v, status %d", err, Status(err))
	}
}

func TestOnlyAnActionThatWaitsHasNoTimeLimit(t *testing.T) {
	for _, c := range []struct {
		flags   actionFlags
		limited bool
	}{{actionFlags{}, true}, {actionFlags{wait: true}, false}, {actionFlags{wait: true, timeout: time.Hour}, true}} {
		ctx, release := actionContext(context.Background(), c.flags)
		if _, limited := ctx.Deadline(); limited != c.limited {
			t.Errorf("%+v: limited is %v", c.flags, limited)
		}
		release()
	}
}

func TestTargetOfAResize(t *testing.T) {
	for _, c := range []struct {
		flags   actionFlags
		present int
		want    int // 0: refused
	}{
		{actionFlags{slots: 7}, 3, 7},
		{actionFlags{add: 2}, 3, 5},
		{actionFlags{remove: 2}, 3, 1},
		{actionFlags{remove: 3}, 3, 0},
		{actionFlags{remove: 4}, 3, 0},
		{actionFlags{add: lock.MaxSlots}, 1, 0},
	} {
		got, err := c.flags.target(c.present)
		if got != c.want || (err == nil) == (c.want == 0) || (err != nil && Status(err) != ExitUsage) {
			t.Errorf("%+v of %d: got %d, %v", c.flags, c.present, got, err)
		}
	}
}

func TestCommandThatFinishesAnActionCanBeGivenTwice(t *testing.T) {
	for _, c := range []struct {
		kind                lock.Kind
		name                string
		command             string
		flags               actionFlags
		before, after, want int
		text                string
	}{
		{lock.Semaphore, "a lock", "berth semaphore resize", actionFlags{add: 5}, 10, 13, 15, "berth semaphore resize 'a lock' --slots 15"},
		{lock.Semaphore, "a lock", "berth semaphore create", actionFlags{slots: 9}, 0, 4, 9, "berth semaphore resize 'a lock' --slots 9"},
		{lock.Semaphore, "a lock", "berth semaphore create", actionFlags{slots: 9}, 0, 0, 9, "berth semaphore create 'a lock' --slots 9"},
		{lock.Semaphore, "a lock", "berth semaphore resize", actionFlags{remove: 2, wait: true}, 10, 8, 8, "berth semaphore resize 'a lock' --slots 8 --wait"},
		{lock.Semaphore, "a lock", "berth semaphore resize", actionFlags{remove: 40, wait: true}, 50, 10, 10, "berth semaphore resize 'a lock' --slots 10 --wait --overshoot 40"},
		{lock.Semaphore, "a lock", "berth semaphore destroy", actionFlags{wait: true}, 10, 0, 0, "berth semaphore destroy 'a lock' --wait"},
		{lock.PersistentMutex, "a lock", "berth persistent-mutex enable", actionFlags{}, 0, 0, 1, "berth persistent-mutex enable 'a lock'"},
		{lock.Semaphore, "-x", "berth semaphore resize", actionFlags{add: 5, wait: true}, 10, 13, 15, "berth semaphore resize --slots 15 --wait -- -x"},
		{lock.PersistentMutex, "-x", "berth persistent-mutex disable", actionFlags{}, 1, 1, 0, "berth persistent-mutex disable -- -x"},
	} {
		c.flags.overshoot = defaultOvershoot
		a := &administration{id: lock.ID{Kind: c.kind, Name: c.name}, flags: c.flags, c: &cli.Context{Command: &cli.Command{HelpName: c.command}}}
		if got := a.again(c.before, c.after, c.want); got != c.text {
			t.Errorf("got %q, want %q", got, c.text)
		}
	}
}

// Without it, the pasted command would change another lock.
func TestCommandThatFinishesAnActionKeepsTheNaming(t *testing.T) {
	for _, c := range []struct {
		cfg  config.Connection
		name string
		text string
	}{
		{config.Connection{Naming: config.NamingNAL}, "x", "berth semaphore resize x --slots 3 --naming N-A-L"},
		{config.Connection{Naming: config.NamingNAL}, "-x", "berth semaphore resize --slots 3 --naming N-A-L -- -x"},
		{config.Connection{Naming: config.NamingNLA}, "x", "berth semaphore resize x --slots 3"},
		{config.Connection{Naming: config.NamingNAL, Local: true}, "x", "berth semaphore resize x --slots 3"},
	} {
		a := &administration{id: lock.ID{Kind: lock.Semaphore, Name: c.name}, c: &cli.Context{Command: &cli.Command{}}, naming: namingFlags(c.cfg)}
		if got := a.again(1, 2, 3); got != c.text {
			t.Errorf("%+v: got %q, want %q", c.cfg, got, c.text)
		}
	}
}

// busy is an administrator that finds another at work for ever.
type busy struct{ lock.Administrator }

func (busy) Resize(ctx context.Context, _ int, _ func(int) (int, error)) (int, int, error) {
	<-ctx.Done()
	return 0, 0, lock.ErrBusy
}

func TestAnotherAdministratorIsNotWaitedForWithoutLimit(t *testing.T) {
	defer func(was time.Duration) { actionTimeout = was }(actionTimeout)
	actionTimeout = time.Millisecond
	ctx, release := actionContext(context.Background(), actionFlags{wait: true})
	defer release()
	a := &administration{Administrator: busy{}, flags: actionFlags{wait: true}}
	_, _, err := a.change(ctx, 0, func(int) (int, error) { return 0, nil })
	if !errors.Is(err, lock.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) || Status(err) != ExitNotObtained {
		t.Errorf("got %v, status %d", err, Status(err))
	}
}

// As with --timeout "$T" where T is empty: it must not mean no limit.
func TestEmptyValueOfAFlagIsAMistake(t *testing.T) {
	for _, name := range []string{"wait", "timeout", "slots", "overshoot"} {
		if _, err := readActionFlags(map[string][]string{name: {""}}); Status(err) != ExitUsage || !strings.Contains(err.Error(), "--"+name) {
			t.Errorf("--%s with an empty value: %v", name, err)
		}
	}
	if _, err := switched(map[string][]string{"connect": {""}}, "connect"); Status(err) != ExitUsage {
		t.Errorf("--connect with an empty value: %v", err)
	}
}

func TestMessageOfOneLineKeepsTheSpacesOfNames(t *testing.T) {
	if got := oneLine(errors.New("create it with: berth semaphore create 'a  b'\nor not")); got != "create it with: berth semaphore create 'a  b' or not" {
		t.Errorf("it became %q", got)
	}
}
