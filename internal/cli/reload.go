package cli

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/urfave/cli/v2"

	"berth/internal/cli/flags"
	"berth/internal/config"
	"berth/internal/inquire"
	"berth/internal/logging"
	"berth/lock"
)

const aboutReload = `Asks holders to read their configuration again, for what can change while a
slot is held: what cannot is said. Of a lock of several slots those on this
host are asked, or that of --slot. HUP does not do it: a HUP is the command's
own.

In a unit of systemd, so that 'systemctl reload' does it:
  ExecReload=/usr/bin/berth reload --config /etc/berth/%i.hcl

Example:
  berth reload --config /etc/berth/importer.hcl
`

// The flags that only `berth reload` has.
var reloadOptions = []config.Option{slotOption, jsonOption}

func reloadCommand() *cli.Command {
	return command(cli.Command{
		Name:        "reload",
		Usage:       "have a holder read its configuration again",
		UsageText:   "berth reload (LOCK | --config FILE) [--slot L] [--json] [flags]",
		Description: aboutReload,
		Flags:       append(flags.For(reloadOptions), flags.For(inquiryOptions())...),
		Action:      reloadAction,
	}, exitStatusesOfRequest)
}

func reloadAction(c *cli.Context) error {
	read := flags.Read(flags.Given(c, reloadOptions))
	slot, asJSON := read.Number("slot", 1, lock.MaxSlots, 0), read.Switch("json")
	if err := read.Err(); err != nil {
		return err
	}
	return ask(c, actionTimeout, func(ctx context.Context, q *inquire.Inquiry) error {
		return reload(ctx, q, slot, asJSON, c.App.Writer)
	})
}

// reload asks, and says what became of it: an object or a line for each holder.
func reload(ctx context.Context, q *inquire.Inquiry, slot int, asJSON bool, w io.Writer) error {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost" // as holders say who do not know it either
	}
	all, err := q.Reload(ctx, slot, host)
	if err != nil && len(all) == 0 && asJSON {
		nobody := &result{Kind: q.ID.Kind, Name: q.ID.Name, Slot: slot, Why: logging.OneLine(err)}
		return errors.Join(nobody.writeJSON(w), err)
	}
	for _, asked := range all {
		result := newResult(q.ID, asked)
		switch {
		case asJSON:
			err = errors.Join(err, result.writeJSON(w))
		case !asked.Decision.Heeded: // the error says it
		case asked.Decision.Why != "":
			err = errors.Join(err, result.say(w, "%s reloads; %s", by(asked.Holder),
				inquire.Printable(asked.Decision.Why)))
		default:
			err = errors.Join(err, result.say(w, "%s reloads", by(asked.Holder)))
		}
		if !asked.Decision.Heeded {
			err = errors.Join(err, notHeeded(q.ID, asked))
		}
	}
	return err
}
