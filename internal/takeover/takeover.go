// Package takeover asks the holder of a slot to step down, once the berth that is to follow it is ready:
//
//	t := takeover.Takeover{ReadyFile: "/run/new/ready", Inspector: inspector, Log: log}
//	err := t.Ask(ctx, slot)
//
// It knows nothing of how a slot is held, and never gives one up.
package takeover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/hashicorp/go-hclog"

	"berth/lock"
)

const (
	// readyPoll is how often it is looked whether the command could do its work.
	readyPoll = 200 * time.Millisecond
	// readyTimeout bounds one run of ReadyCommand.
	readyTimeout = 30 * time.Second
	// askTimeout bounds one question to the holder.
	askTimeout = 3 * time.Second
)

// Takeover is how one berth takes over from another. Fields without a stated default are required.
type Takeover struct {
	ReadyFile    string // that exists once the command could do its work; "": nothing is waited for
	ReadyCommand string // for sh -c, with status 0 from then on; "": nothing is waited for

	Dir string // that ReadyCommand runs in; "": the present one

	Again     time.Duration  // after which one that has heeded is asked again, if the slot is not ours by then
	Inspector lock.Inspector // of the lock; Ask closes it
	Log       hclog.Logger
}

// Ask waits until the command could do its work, and asks the holder of a slot, or of any that is held for 0, to step
// down: again and again, because somebody else may be faster to take the place. It returns when ctx ends.
func (t Takeover) Ask(ctx context.Context, slot int) error {
	defer t.Inspector.Close()
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
	for said := false; !t.ready(ctx); {
		if !said {
			log := t.Log
			if t.ReadyFile != "" {
				log = log.With("ready_file", t.ReadyFile)
			}
			if t.ReadyCommand != "" {
				log = log.With("ready_command", t.ReadyCommand)
			}
			log.Info("not taking over before this is ready")
			said = true
		}
		if err := sleep(ctx, readyPoll); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (t Takeover) ready(ctx context.Context) bool {
	if t.ReadyFile != "" {
		if _, err := os.Stat(t.ReadyFile); err != nil {
			return false
		}
	}
	if t.ReadyCommand == "" {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", t.ReadyCommand)
	cmd.Dir = t.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	return cmd.Run() == nil
}

// ask asks once. nil: it is heeded.
func (t Takeover) ask(ctx context.Context, slot int) error {
	if slot == 0 {
		var err error
		if slot, err = t.heldSlot(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := t.Inspector.Ask(ctx, slot, lock.AskStepDown)
	if err != nil {
		return err
	}
	var decision lock.Decision
	if err := json.Unmarshal(answer, &decision); err != nil {
		return fmt.Errorf("the holder of slot %d gives no answer that makes sense: %w", slot, err)
	}
	if !decision.Heeded {
		return errors.New(decision.Why)
	}
	t.Log.Info("the holder steps down", "slot", slot)
	return nil
}

// heldSlot returns the number of one that is held.
func (t Takeover) heldSlot(ctx context.Context) (int, error) {
	status, err := t.Inspector.Look(ctx)
	if err != nil {
		return 0, err
	}
	for _, slot := range status.Slots {
		if slot.State == lock.SlotHeld {
			return slot.Slot, nil
		}
	}
	return 0, errors.New("no slot is held")
}

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
