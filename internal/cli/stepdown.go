package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"berth/internal/cli/flags"
	"berth/internal/config"
	"berth/internal/inquire"
	"berth/internal/logging"
	"berth/lock"
)

const aboutStepDown = `Asks the holder of a slot to stop its command, to give the slot back and to go
to the end of the line: its successor starts. A lock of several slots needs
--slot, unless only one is held. The broker's user has to be one of the holder's
--admins, by default its own user.

With --wait, returns when a command runs in the slot again, and prints whose:
that of the same berth, if no other waits. It also prints for how long at most
the slot had no holder, as exactly as the hosts' clocks agree, or to 0.1s or so.

Examples:
  berth step-down --mutex importer --wait
  berth step-down --semaphore workers --slot 3
`

// The flags that only `berth step-down` has.
var stepDownOptions = []config.Option{
	slotOption,
	flagOnly("wait", "", config.Switch, "Return when a command runs in the slot again, and print whose."),
	flagOnly("timeout", "DURATION", config.Duration,
		fmt.Sprintf("Give up after DURATION. Default: %s, and with --wait no limit.", actionTimeout)),
	jsonOption,
}

func stepDownCommand() *cli.Command {
	return command(cli.Command{
		Name:        "step-down",
		Usage:       "have a holder give its slot to its successor",
		UsageText:   "berth step-down LOCK [--slot L] [--wait] [--timeout DURATION] [--json] [flags]",
		Description: aboutStepDown,
		Flags:       append(flags.For(stepDownOptions), flags.For(inquiryOptions())...),
		Action:      stepDownAction,
	}, exitStatusesOfRequest)
}

// stepDownRequest is what `berth step-down` is asked for.
type stepDownRequest struct {
	slot       int // 0: the only one that is held
	wait, json bool
	timeout    time.Duration
}

func stepDownAction(c *cli.Context) error {
	read := flags.Read(flags.Given(c, stepDownOptions))
	request := stepDownRequest{
		slot: read.Number("slot", 1, lock.MaxSlots, 0), wait: read.Switch("wait"), json: read.Switch("json"),
		timeout: read.Duration("timeout"),
	}
	if err := read.Err(); err != nil {
		return err
	}
	return ask(c, limit(request.timeout, request.wait), func(ctx context.Context, q *inquire.Inquiry) error {
		return stepDown(ctx, q, request, c.App.Writer)
	})
}

// stepDown asks, and says what became of it. In JSON that is one object, whatever has failed.
func stepDown(ctx context.Context, q *inquire.Inquiry, r stepDownRequest, w io.Writer) error {
	asked, err := q.StepDown(ctx, r.slot)
	result, err := newResult(q.ID, r.slot, asked, err)
	switch {
	case err != nil:
	case r.wait:
		err = awaitSuccessor(ctx, q, r, asked, result, w)
	case !r.json:
		return sayAccepted(result, asked, w)
	}
	if r.json {
		err = errors.Join(json.NewEncoder(w).Encode(result), err)
	}
	return err
}

func sayAccepted(result *result, asked inquire.Asked, w io.Writer) error {
	what := "steps down"
	if asked.Decision.Why != "" {
		what = "agrees: " + inquire.Printable(asked.Decision.Why)
	}
	return result.say(w, "%s %s", by(asked.Holder), what)
}

// awaitSuccessor completes the result with the slot's next holder.
func awaitSuccessor(ctx context.Context, q *inquire.Inquiry, r stepDownRequest, asked inquire.Asked, result *result,
	w io.Writer,
) error {
	if !r.json {
		if err := sayAccepted(result, asked, w); err != nil {
			return err
		}
	}
	next, err := q.AwaitSuccessor(ctx, asked)
	if err != nil {
		result.Why = logging.OneLine(err)
		return err
	}
	result.To = &next.Holder
	result.After, result.Gap = milliseconds(next.After), milliseconds(next.Gap)
	if r.json {
		return nil
	}
	runs := "runs"
	if asked.Holder != nil && asked.Holder.Holder == next.Holder.Holder {
		runs = "runs again"
	}
	return result.say(w, "%s %s under term %d, %s after it was asked; the slot was free for %s at most",
		by(&next.Holder), runs, next.Holder.Term, next.After.Round(time.Millisecond), next.Gap.Round(time.Millisecond))
}

func milliseconds(d time.Duration) *int64 {
	ms := d.Milliseconds()
	return &ms
}
