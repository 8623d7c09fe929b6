package cli

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/urfave/cli/v2"

	"berth/internal/backends"
	"berth/internal/cli/flags"
	"berth/internal/config"
	"berth/internal/inquire"
	"berth/internal/interrupt"
	"berth/internal/logging"
	"berth/lock"
)

// The flags of commands that look at a lock, or ask its holders.
var (
	jsonOption = flagOnly("json", "", config.Switch, "Print one JSON object.")
	slotOption = flagOnly("slot", "L", config.Text, "Ask the holder of slot L.")
)

// inquiryOptions are those that a command about one lock has beside its own.
func inquiryOptions() []config.Option {
	locks := config.LockOptions()
	for i := range locks { // whose usage is about holding it
		locks[i].Usage = "The " + strings.ReplaceAll(locks[i].Name, "-", " ") + " NAME."
	}
	return append(locks, config.ConnectionOptions()...)
}

// lockOf reads where locks live, and which one is meant, if any.
func lockOf(c *cli.Context) (config.Connection, lock.ID, error) {
	if c.Args().Present() {
		return config.Connection{}, lock.ID{}, config.Usagef("takes no %q; name the lock by its kind, such as "+
			"--mutex %s; see '%s --help'", c.Args().First(), c.Args().First(), c.Command.HelpName)
	}
	return config.LoadLock(config.Input{Flags: flags.Given(c, inquiryOptions()), LookupEnv: os.LookupEnv})
}

// oneLock is lockOf for a command that needs a lock.
func oneLock(c *cli.Context) (config.Connection, lock.ID, error) {
	cfg, id, err := lockOf(c)
	if err == nil && id.Name == "" {
		err = config.Usagef("no lock is named; give %s with its name", config.LockFlags())
	}
	return cfg, id, err
}

// about opens the lock to be looked at. Its Close is the caller's.
func about(cfg config.Connection, id lock.ID, log hclog.Logger) (*inquire.Inquiry, error) {
	backend, err := backends.Open(cfg, lock.Contention{}, log)
	if err != nil {
		return nil, err
	}
	return &inquire.Inquiry{Inspector: backend.Inspector(id), ID: id, Naming: backends.NamingFlags(cfg)}, nil
}

// limit is how long a command may take, 0 for ever: only one that waits for others
// has no limit of its own.
func limit(timeout time.Duration, wait bool) time.Duration {
	if timeout == 0 && !wait {
		return actionTimeout
	}
	return timeout
}

// ask asks about the one lock that the command line names, for as long as timeout.
func ask(c *cli.Context, timeout time.Duration, question func(context.Context, *inquire.Inquiry) error) error {
	cfg, id, err := oneLock(c)
	if err != nil {
		return err
	}
	log, flush := logging.New(cfg)
	defer flush()
	q, err := about(cfg, id, log)
	if err != nil {
		return err
	}
	ctx, release := interrupt.Context(c.Context, timeout)
	defer release()
	err = question(ctx, q)
	return interrupt.Because(ctx, errors.Join(err, q.Inspector.Close()))
}
