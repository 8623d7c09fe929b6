package guard

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/boottime"
	"berth/internal/guard/guardtest"
	"berth/internal/guard/procfs"
	"berth/internal/guard/wire"
	"berth/supervisor"
)

// beside runs a script beside the command, and looks what is left of it.
func beside(t *testing.T, ctx context.Context, script string, limit time.Duration) error {
	t.Helper()
	host, err := newTestHost()
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	mark := guardtest.NewMark()
	env := slices.Concat(os.Environ(), []string{guardtest.MarkVar + "=" + mark, "GORACE=atexit_sleep_ms=0"})
	spec := Spec{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: env, Aside: true, Silent: true}
	err = host.Run(ctx, spec, Beside{Limit: limit, Stuck: func(e wire.Event) { t.Errorf("it is told that %+v", e) }})
	if left := guardtest.Marked(mark); len(left) > 0 {
		t.Errorf("%q: %d processes are left", script, len(left))
	}
	return err
}

func TestProgramBesideTheCommandIsJudgedByItsStatus(t *testing.T) {
	for script, want := range map[string]string{
		"exit 3":                     "it ended with 3",
		"kill -KILL $$":              "signal 9 ended it",
		"setsid sleep 1000 & exit 4": "it ended with 4",
	} {
		if err := beside(t, t.Context(), script, guardtest.Patience); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %q", script, err, want)
		}
	}
	for range 30 { // nobody else may take its status
		if err := beside(t, t.Context(), ":", guardtest.Patience); err != nil {
			t.Fatal(err)
		}
	}
}

func TestProgramBesideTheCommandIsKilledAfterItsTime(t *testing.T) {
	err := beside(t, t.Context(), guardtest.Forest, 200*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "took longer") {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := beside(t, ctx, guardtest.Forest, guardtest.Patience); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestWhatMayNotBeSignalledBesideTheCommandIsTold(t *testing.T) {
	spec := Spec{Path: "/bin/sleep", Args: []string{"sleep", "1000"}, Credential: another, Aside: true, Silent: true,
		Env: []string{"GORACE=atexit_sleep_ms=0"}}
	withoutKill(t, func() {
		host, err := newTestHost()
		if err != nil {
			t.Error(err)
			return
		}
		defer host.Close()
		told := 0
		err = host.Run(t.Context(), spec, Beside{Limit: time.Second, Stuck: func(e wire.Event) {
			told++
			_ = unix.Kill(e.Pid, unix.SIGKILL) // this process may
		}})
		if err == nil || told == 0 {
			t.Errorf("told %d times, %v", told, err)
		}
	})
}

// The tracer stands for a disk that is gone.
func TestWhatKILLDoesNotEndBesideTheCommandIsTold(t *testing.T) {
	tracer, mark := guardtest.NewTracer(t), guardtest.NewMark()
	host, err := newTestHost()
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	spec := Spec{Path: "/bin/sleep", Args: []string{"sleep", "1000"}, Aside: true, Silent: true,
		Env: []string{guardtest.MarkVar + "=" + mark, "GORACE=atexit_sleep_ms=0"}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told, ended := make(chan wire.Event, 10), make(chan error, 1)
	go func() {
		ended <- host.Run(ctx, spec, Beside{Limit: guardtest.Patience, Stuck: func(e wire.Event) { told <- e }})
	}()
	var sleeping int
	guardtest.Await(t, "sleep", func() bool {
		for _, pid := range guardtest.Marked(mark) { // its guard is another one
			if strings.Contains(guardtest.StatusOf(pid), "\tsleep\n") {
				sleeping = pid
			}
		}
		return sleeping != 0
	})
	tracer.Keep(sleeping, guardtest.KeptAlive)
	cancel()
	select {
	case e := <-told:
		if e.Kind != wire.Lasting || e.Pid != sleeping || !e.Left {
			t.Errorf("of process %d it is told %+v", sleeping, e)
		}
		// Without this process its guard alone would have the slot wait for it.
		if p, err := procfs.Read(sleeping); err != nil || p.Parent == os.Getpid() {
			t.Errorf("its guard is dead, and it was not to blame (%v)", err)
		}
	case <-time.After(guardtest.Patience):
		t.Error("nothing is told of a process that KILL does not end")
	}
	tracer.End()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}

// The limit is that of the program alone. The slot's deadline comes sooner, and moves.
func TestProgramBesideTheCommandIsDeadByTheSlotsDeadline(t *testing.T) {
	host, err := newTestHost()
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	mark, renewed := guardtest.NewMark(), make(chan boottime.Instant, 1)
	spec := Spec{Path: "/bin/sh", Args: []string{"sh", "-c", guardtest.Forest}, Aside: true, Silent: true,
		Env: slices.Concat(os.Environ(), []string{guardtest.MarkVar + "=" + mark, "GORACE=atexit_sleep_ms=0"})}
	how := Beside{Limit: time.Hour, Start: supervisor.Start{Deadline: boottime.Now().Add(time.Hour)}, Renewed: renewed,
		Stuck: func(e wire.Event) { t.Errorf("it is told that %+v", e) }}
	renewed <- boottime.Now().Add(300 * time.Millisecond)
	if err := host.Run(t.Context(), spec, how); !errors.Is(err, ErrUnjudged) {
		t.Errorf("it ends with %v", err)
	}
	if left := guardtest.Marked(mark); len(left) > 0 {
		t.Errorf("%d processes are left", len(left))
	}
}

func TestProgramBesideTheCommandOfWhichNothingIsKnownIsNotJudged(t *testing.T) {
	if err := beside(t, t.Context(), "kill -KILL $PPID; sleep 1000", guardtest.Patience); !errors.Is(err, ErrUnjudged) {
		t.Errorf("its guard was killed: %v", err)
	}
}
