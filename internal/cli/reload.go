package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"berth/internal/cli/flags"
	"berth/internal/config"
	"berth/internal/inquire"
	"berth/internal/interrupt"
	"berth/internal/logging"
	"berth/lock"
)

const aboutReload = `Has a running berth read its configuration again. It names the settings that
have changed, and those that need a restart, such as all of health checks. Do
not send HUP for that: berth forwards it to the command.

With --pid, asks the berth that is that process of this host, whether it holds a
slot or waits for one, also while the broker is away. Only its user and root may
ask. In a systemd unit, for 'systemctl reload':
  ExecReload=/usr/bin/berth reload --pid $MAINPID

With a lock, asks the holder, on whichever host it runs. A lock of several slots
needs --slot, unless only one is held. The broker's user has to be one of the
holder's --admins, by default its own user.

Examples:
  berth reload --pid 815
  berth reload --semaphore workers --slot 3
`

// The flags that only `berth reload` has.
var reloadOptions = []config.Option{
	flagOnly("pid", "PID", config.Text, "Ask the berth that is process PID of this host."), slotOption, jsonOption,
}

// maxPID is Linux's PID_MAX_LIMIT.
const maxPID = 1 << 22

func reloadCommand() *cli.Command {
	return command(cli.Command{
		Name:  "reload",
		Usage: "have a berth read its settings again",
		UsageText: "berth reload --pid PID [--json]\n" +
			"berth reload LOCK [--slot L] [--json] [flags]",
		Description: aboutReload,
		Flags:       append(flags.For(reloadOptions), flags.For(inquiryOptions())...),
		Action:      reloadAction,
	}, exitStatusesOfRequest)
}

func reloadAction(c *cli.Context) error {
	read := flags.Read(flags.Given(c, reloadOptions))
	pid := read.Number("pid", 1, maxPID, 0)
	slot, asJSON := read.Number("slot", 1, lock.MaxSlots, 0), read.Switch("json")
	if err := read.Err(); err != nil {
		return err
	}
	if pid == 0 {
		return ask(c, actionTimeout, func(ctx context.Context, q *inquire.Inquiry) error {
			return reloadHolder(ctx, q, slot, asJSON, c.App.Writer)
		})
	}
	if slot != 0 || c.Args().Present() || len(flags.Given(c, inquiryOptions())) > 0 {
		return config.Usagef("--pid names the berth to ask; give no lock, broker or argument beside it")
	}
	ctx, release := interrupt.Context(c.Context, actionTimeout)
	defer release()
	return interrupt.Because(ctx, reloadProcess(ctx, pid, asJSON, c.App.Writer))
}

// reloadHolder asks the holder of a slot, and says what became of it.
func reloadHolder(ctx context.Context, q *inquire.Inquiry, slot int, asJSON bool, w io.Writer) error {
	asked, err := q.Reload(ctx, slot)
	result, err := newResult(q.ID, slot, asked, err)
	switch {
	case asJSON:
		err = errors.Join(json.NewEncoder(w).Encode(result), err)
	case err == nil:
		err = result.say(w, "%s %s", by(asked.Holder), reloads(asked.Decision))
	}
	return err
}

// reloadProcess asks a process, and says what became of it.
func reloadProcess(ctx context.Context, pid int, asJSON bool, w io.Writer) error {
	decision, err := inquire.ReloadProcess(ctx, pid)
	switch {
	case err != nil:
		decision.Why = logging.OneLine(err)
	case !decision.Accepted:
		err = lock.Errorf(errRefused, "process %d refuses: %s", pid, inquire.Reason(decision.Why))
	}
	switch {
	case asJSON:
		line := struct {
			PID int `json:"pid"`
			lock.Decision
		}{pid, decision}
		err = errors.Join(json.NewEncoder(w).Encode(line), err)
	case decision.Accepted:
		_, err = fmt.Fprintf(w, "process %d %s\n", pid, reloads(decision))
	}
	return err
}

// reloads is what a berth does that accepts the request.
func reloads(d lock.Decision) string {
	if d.Why == "" {
		return "reloads"
	}
	return "reloads; " + inquire.Reason(d.Why)
}
