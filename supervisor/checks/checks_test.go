package checks

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/boottime"
	"berth/supervisor"
)

// patience is for what has to happen; a failing test waits for it.
const patience = 20 * time.Second

// untilCancelled succeeds when ctx ends.
func untilCancelled(ctx context.Context, _ supervisor.Start, _ <-chan boottime.Instant) supervisor.Verdict {
	<-ctx.Done()
	return supervisor.Verdict{Outcome: supervisor.CheckSucceeded}
}

func TestVerdictOfACheckThatWasBrokenOffDoesNotCount(t *testing.T) {
	for _, breaks := range []bool{false, true} {
		c := New(func(ctx context.Context, _ supervisor.Start, _ <-chan boottime.Instant) supervisor.Verdict {
			if breaks {
				<-ctx.Done()
			}
			return supervisor.Verdict{Outcome: supervisor.CheckSucceeded}
		})
		if c.UnderWay() || c.Verdicts() != nil {
			t.Error("one is under way before it has begun")
		}
		if err := c.Begin(supervisor.Start{}, false); err != nil || !c.UnderWay() {
			t.Fatalf("it is not under way: %v", err)
		}
		if breaks {
			c.BreakOff()
		}
		<-c.Verdicts()
		if counts := c.Ended(); counts == breaks || c.UnderWay() {
			t.Errorf("broken off %v: its verdict counts: %v", breaks, counts)
		}
	}
}

// The command's guard learns by a lock whether anything runs beside the command, and keeps anything from beginning.
func TestCheckOfTheCommandIsSeenBesideIt(t *testing.T) {
	c := New(untilCancelled)
	file := c.Attach()
	lock := func() error { return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
	if err := c.Begin(supervisor.Start{}, true); err != nil {
		t.Fatal(err)
	}
	if err := lock(); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("while it runs: %v", err)
	}
	c.BreakOff()
	<-c.Verdicts()
	c.Ended()
	if err := lock(); err != nil {
		t.Errorf("when it is dead: %v", err)
	}
	if err := c.Begin(supervisor.Start{}, true); err == nil || c.UnderWay() {
		t.Errorf("one begins after the guard has looked: %v", err)
	}
	if !c.Close(patience) {
		t.Error("without one there is something to wait for")
	}
}

func TestNewestDeadlineIsWhatACheckReads(t *testing.T) {
	read := make(chan boottime.Instant)
	now := make(chan struct{})
	c := New(func(_ context.Context, _ supervisor.Start, renewed <-chan boottime.Instant) supervisor.Verdict {
		<-now
		read <- <-renewed
		return supervisor.Verdict{}
	})
	c.Renew(1) // there is none, and nothing happens
	if err := c.Begin(supervisor.Start{}, false); err != nil {
		t.Fatal(err)
	}
	c.Renew(2)
	c.Renew(3)
	close(now)
	if got := <-read; got != 3 {
		t.Errorf("it has read %d", got)
	}
	if !c.Close(patience) {
		t.Error("it has not ended")
	}
}

func TestCloseWaitsForTheCheckAsLongAsItIsPatient(t *testing.T) {
	c := New(untilCancelled)
	if err := c.Begin(supervisor.Start{}, false); err != nil {
		t.Fatal(err)
	}
	if !c.Close(patience) || c.UnderWay() {
		t.Error("it has not ended")
	}
	stay := make(chan struct{})
	c = New(func(context.Context, supervisor.Start, <-chan boottime.Instant) supervisor.Verdict {
		<-stay
		return supervisor.Verdict{}
	})
	if err := c.Begin(supervisor.Start{}, false); err != nil {
		t.Fatal(err)
	}
	if c.Close(time.Millisecond) {
		t.Error("one that does not end has ended")
	}
	close(stay)
}

func TestWithoutChecksTheGuardHasNothingToLookAt(t *testing.T) {
	if file := New(nil).Attach(); file != nil {
		t.Errorf("it has %v", file.Name())
	}
}
