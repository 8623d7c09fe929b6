package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"berth/internal/administer"
	"berth/internal/backends"
	"berth/internal/cli/flags"
	"berth/internal/config"
	"berth/internal/interrupt"
	"berth/internal/logging"
	"berth/lock"
)

// actionTimeout bounds an administrative action that does not wait for holders,
// and of any action the wait for another administrator. A broker answers within
// milliseconds; another administrator of the same lock may be in front for some
// seconds.
const actionTimeout = 30 * time.Second

// groupAction is the heading of flags that one command has.
const groupAction = "What to do"

// The flags that only administration commands have.
var (
	slotsOption = flagOnly("slots", "N", config.Text,
		fmt.Sprintf("How many slots the semaphore has, 1 to %d.", lock.MaxSlots))
	addOption = flagOnly("add", "X", config.Text,
		"Add X slots to what is there.")
	removeOption = flagOnly("remove", "X", config.Text,
		"Remove the X highest slots.")
	waitOption = flagOnly("wait", "", config.Switch,
		"Return when the commands of the removed slots are dead.")
	sweepOption = config.Option{Name: "sweep", Group: groupAction, FlagOnly: true, Value: "N",
		Default: strconv.Itoa(administer.DefaultSweep),
		Usage:   "Look for leftovers to remove in N slots beyond the highest one."}
	ascendingOption = flagOnly("ascending", "", config.Switch,
		"Remove the lowest slot first, not the highest: from then on waiters find no slot. Needs a broker.")
	timeoutOption = flagOnly("timeout", "DURATION", config.Duration, fmt.Sprintf(
		"Give up after DURATION. Default: %s, or with --wait no limit but for other administrators.", actionTimeout))
	// createTimeoutOption is timeoutOption for an action without --wait.
	createTimeoutOption = flagOnly("timeout", "DURATION", config.Duration,
		fmt.Sprintf("Give up after DURATION. Default: %s.", actionTimeout))
)

// flagOnly is an option of one command, which stands on the command line alone.
func flagOnly(name, value string, kind config.ValueKind, usage string) config.Option {
	return config.Option{Name: name, Group: groupAction, FlagOnly: true, Value: value, Kind: kind, Usage: usage}
}

// The options of the actions on locks with several slots, and of those that only remove.
var (
	createOptions  = []config.Option{slotsOption, createTimeoutOption}
	resizeOptions  = []config.Option{slotsOption, addOption, removeOption, waitOption, sweepOption, timeoutOption}
	removalOptions = []config.Option{waitOption, sweepOption, timeoutOption}
)

// act is an action of package administer.
type act func(*administer.Action, context.Context) error

// adminCommand completes the description of an administration command: it reads the
// command line, then acts within its time limit.
func adminCommand(c cli.Command, kind lock.Kind, options []config.Option, do act) *cli.Command {
	c.ArgsUsage = "NAME"
	c.Flags = append(flags.For(options), flags.For(config.ConnectionOptions())...)
	c.Action = func(c *cli.Context) error {
		id, err := lockNamed(kind, c)
		if err != nil {
			return err
		}
		request, err := readRequest(kind, flags.Given(c, options))
		if err != nil {
			return err
		}
		cfg, err := config.LoadConnection(config.Input{
			Flags:     flags.Given(c, config.ConnectionOptions()),
			LookupEnv: os.LookupEnv,
		})
		if err != nil {
			return err
		}
		switch {
		case kind == lock.TokenSemaphore && cfg.Local:
			return config.NeedsBroker(id)
		case request.Ascending && cfg.Local:
			return config.Usagef("--ascending needs a broker: on one host all slots are removed at once; leave it out")
		case kind == lock.TokenSemaphore && cfg.Protocol == config.ProtocolPlain:
			return config.NeedsConsumers(id)
		}
		if err := cfg.CheckQueues(id); err != nil {
			return err
		}
		log, flush := logging.New(cfg)
		defer flush()
		backend, err := backends.Open(cfg, lock.Contention{}, log)
		if err != nil {
			return err
		}
		ctx, release := interrupt.Context(c.Context, limit(request.Timeout, request.Wait))
		defer release()
		a := &administer.Action{
			Administrator: backend.Administrator(id), ID: id, Request: request,
			Command: c.Command.HelpName, Naming: backends.NamingFlags(cfg), Patience: actionTimeout,
			Results: c.App.Writer, Progress: c.App.ErrWriter,
		}
		err = do(a, ctx)
		return interrupt.Because(ctx, errors.Join(err, a.Close()))
	}
	return command(c, exitStatusesOfAction)
}

// lockNamed reads the one argument of an administration command.
func lockNamed(kind lock.Kind, c *cli.Context) (lock.ID, error) {
	if c.NArg() != 1 {
		return lock.ID{}, config.Usagef("takes one NAME, not %d; see '%s --help'", c.NArg(), c.Command.HelpName)
	}
	id := lock.ID{Kind: kind, Name: c.Args().First()}
	if err := id.Check(); err != nil {
		return lock.ID{}, config.Usagef("%v", err)
	}
	return id, nil
}

func readRequest(kind lock.Kind, given map[string][]string) (administer.Request, error) {
	if slices.Equal(given["slots"], []string{"0"}) {
		return administer.Request{}, config.Usagef("--slots \"0\": must be a number from 1 to %d; "+
			"use 'berth %s destroy' to remove the semaphore", lock.MaxSlots, kind)
	}
	read := flags.Read(given)
	return administer.Request{
		Slots:     read.Number("slots", 1, lock.MaxSlots, 0),
		Add:       read.Number("add", 1, lock.MaxSlots, 0),
		Remove:    read.Number("remove", 1, lock.MaxSlots, 0),
		Sweep:     read.Number("sweep", 0, lock.MaxSlots, administer.DefaultSweep),
		Ascending: read.Switch("ascending"),
		Wait:      read.Switch("wait"),
		Timeout:   read.Duration("timeout"),
	}, read.Err()
}
