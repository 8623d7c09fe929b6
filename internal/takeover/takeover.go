// Package takeover asks the holder of a slot to step down, once the berth that is to follow it is ready:
//
//	t := takeover.Takeover{ReadyFile: "/run/new/ready", Inquiry: inquiry, Log: log}
//	err := t.Ask(ctx, slot)
//
// It knows nothing of how a slot is held, and never gives one up.
package takeover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/hashicorp/go-hclog"

	"berth/internal/inquire"
)

const (
	// filePause and commandPause are between two looks whether the command could do its work.
	filePause    = 200 * time.Millisecond
	commandPause = 500 * time.Millisecond
)

// Takeover is how one berth takes over from another. Fields without a stated default are required.
type Takeover struct {
	ReadyFile    string // that exists once the command could do its work; "": nothing is waited for
	ReadyCommand string // has status 0 from then on, see Run; "": nothing is waited for

	// Run runs ReadyCommand once. Its error says how that failed, nil: it did not. Required with ReadyCommand.
	Run func(ctx context.Context) error

	// Tell is told what is waited for, in a few words that go on after "waiting for", whenever that changes. Default
	// nil: nobody is.
	Tell func(what string)

	Again   time.Duration    // after which one that has accepted is asked again, if the slot is not ours by then
	Inquiry *inquire.Inquiry // about the lock; Ask closes it
	Log     hclog.Logger
}

// Ask waits until the command could do its work, and asks the holder of a slot, or of any that is held for 0, to step
// down: again and again, because somebody else may be faster to take the place. It returns when ctx ends.
func (t Takeover) Ask(ctx context.Context, slot int) error {
	defer t.Inquiry.Inspector.Close()
	if err := t.awaitReady(ctx); err != nil {
		return err
	}
	pauses := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
	said := ""
	for {
		err, pause := t.ask(ctx, slot), pauses.NextBackOff()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			pause, said = t.Again, ""
		case err.Error() != said:
			t.Log.Warn("the holder was asked to step down and does not yet; asking again", "error", err)
			said = err.Error()
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// awaitReady waits for what says that the command could do its work.
func (t Takeover) awaitReady(ctx context.Context) error {
	for said := false; ; {
		problem, pause := t.ready(ctx)
		if problem == "" || ctx.Err() != nil {
			return ctx.Err()
		}
		t.tell(problem)
		if !said {
			log := t.Log.With("because", problem)
			if t.ReadyFile != "" {
				log = log.With("ready_file", t.ReadyFile)
			}
			if t.ReadyCommand != "" {
				log = log.With("ready_command", t.ReadyCommand)
			}
			log.Info("not taking over before this berth is ready")
			said = true
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// ready returns why the command could not do its work yet, "" if it could, and when to look again.
func (t Takeover) ready(ctx context.Context) (problem string, again time.Duration) {
	if t.ReadyFile != "" {
		if _, err := os.Stat(t.ReadyFile); err != nil {
			return fmt.Sprintf("the ready file %s: %v", t.ReadyFile, errors.Unwrap(err)), filePause
		}
	}
	if t.ReadyCommand == "" {
		return "", 0
	}
	t.tell("the ready command, which runs since " + clock())
	if err := t.Run(ctx); err != nil {
		return fmt.Sprintf("the ready command, which failed at %s: %v", clock(), err), commandPause
	}
	return "", 0
}

// ask asks once. nil: it is accepted.
func (t Takeover) ask(ctx context.Context, slot int) error {
	at := clock()
	tell := func(what string) {
		whose := "a slot"
		if slot != 0 {
			whose = fmt.Sprintf("slot %d", slot)
		}
		t.tell(fmt.Sprintf("the holder of %s, which was asked to step down at %s and %s", whose, at, what))
	}
	tell("has not answered")
	asked, err := t.Inquiry.StepDownAny(ctx, slot)
	if err == nil && !asked.Decision.Accepted {
		err = errors.New(asked.Decision.Why)
	}
	slot = cmp.Or(asked.Slot, slot)
	if err != nil {
		tell("does not: " + err.Error())
		return err
	}
	t.Log.Info("the holder steps down", "slot", slot)
	tell("is about to")
	return nil
}

func (t Takeover) tell(what string) {
	if t.Tell != nil {
		t.Tell(what)
	}
}

// clock is the time of day, as in the log.
func clock() string { return time.Now().UTC().Format("15:04:05Z") }

func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
