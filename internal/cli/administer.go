package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"berth/internal/config"
	"berth/lock"

	"github.com/urfave/cli/v2"
)

// actionTimeout bounds an administrative action that does not wait for holders,
// and of any action the wait for another administrator. A broker answers within
// milliseconds; another administrator of the same lock may be in front for some
// seconds. Tests shorten it.
var actionTimeout = 30 * time.Second

const (
	// defaultOvershoot is how far beyond the last slot an action sweeps for
	// leftovers. An interrupted deletion leaves the low slots of a lock, never
	// a gap, so leftovers come from a slot that was deleted by hand or lost
	// with its node. Making a lock sweeps too, or it would take them for its own.
	defaultOvershoot = 16
)

// The flags that only administration commands have.
var (
	slotsOption = config.Option{Name: "slots", Group: groupAction, Value: "N",
		Usage: fmt.Sprintf("How many slots the semaphore has, 1 to %d.", lock.MaxSlots)}
	addOption = config.Option{Name: "add", Group: groupAction, Value: "X",
		Usage: "Add X slots to what is there."}
	removeOption = config.Option{Name: "remove", Group: groupAction, Value: "X",
		Usage: "Remove the X highest slots."}
	waitOption = config.Option{Name: "wait", Group: groupAction, Kind: config.Switch,
		Usage: "Return only when nobody holds a removed slot any more."}
	overshootOption = config.Option{Name: "overshoot", Group: groupAction, Value: "N", Default: strconv.Itoa(defaultOvershoot),
		Usage: "Look for leftovers in N slots beyond the highest one."}
	timeoutOption = config.Option{Name: "timeout", Group: groupAction, Value: "DURATION", Kind: config.Duration,
		Usage: fmt.Sprintf("Give up after DURATION. Default: %s, which with --wait is for other administrators only.", actionTimeout)}
	// createTimeoutOption is timeoutOption for an action without --wait.
	createTimeoutOption = config.Option{Name: "timeout", Group: groupAction, Value: "DURATION", Kind: config.Duration,
		Usage: fmt.Sprintf("Give up after DURATION. Default: %s.", actionTimeout)}
)

const groupAction = "What to do"

// administration is one action on one lock by one administrator.
type administration struct {
	lock.Administrator
	id    lock.ID
	flags actionFlags
	c     *cli.Context

	naming []string // see namingFlags
}

// actionFlags are the flags of an action, read. Zero means not given.
type actionFlags struct {
	slots, add, remove int
	overshoot          int
	wait               bool
	timeout            time.Duration
}

// administer returns the action of an administration command: it reads the
// command line, then calls do within its time limit.
func administer(kind lock.Kind, options []config.Option, do func(context.Context, *administration) error) cli.ActionFunc {
	return action(func(c *cli.Context) error {
		id, err := lockNamed(kind, c)
		if err != nil {
			return err
		}
		flags, err := readActionFlags(recorded(c, options))
		if err != nil {
			return err
		}
		cfg, err := config.LoadConnection(config.Input{
			Flags:     recorded(c, config.ConnectionOptions()),
			LookupEnv: os.LookupEnv,
		})
		if err != nil {
			return err
		}
		log, flush := newLogger(cfg)
		defer flush()
		backend, err := openBackend(cfg, 0, false, log)
		if err != nil {
			return err
		}
		ctx, release := actionContext(c.Context, flags)
		defer release()
		a := &administration{backend.Administrator(id), id, flags, c, namingFlags(cfg)}
		err = do(ctx, a)
		return reason(ctx, errors.Join(err, a.Close()))
	})
}

// lockNamed reads the one argument of an administration command.
func lockNamed(kind lock.Kind, c *cli.Context) (lock.ID, error) {
	if c.NArg() != 1 {
		return lock.ID{}, usagef("takes one NAME, not %d; see '%s --help'", c.NArg(), c.Command.HelpName)
	}
	name := c.Args().First()
	if err := lock.CheckName(name); err != nil {
		return lock.ID{}, usagef("%v", err)
	}
	return lock.ID{Kind: kind, Name: name}, nil
}

func readActionFlags(given map[string][]string) (actionFlags, error) {
	flags := actionFlags{overshoot: defaultOvershoot}
	numbers := []struct {
		name string
		min  int
		to   *int
	}{{"slots", 1, &flags.slots}, {"add", 1, &flags.add}, {"remove", 1, &flags.remove}, {"overshoot", 0, &flags.overshoot}}
	for _, number := range numbers {
		if err := readNumber(given, number.name, number.min, number.to); err != nil {
			return flags, err
		}
	}
	text, err := single(given, "wait")
	if err != nil {
		return flags, err
	}
	if text != "" {
		if flags.wait, err = strconv.ParseBool(text); err != nil {
			return flags, usagef("--wait %q: is neither true nor false; give --wait alone", text)
		}
	}
	if text, err = single(given, "timeout"); err != nil || text == "" {
		return flags, err
	}
	if flags.timeout, err = config.ParseDuration(text); err != nil {
		return flags, usagef("--timeout %q: %v", text, err)
	}
	if flags.timeout <= 0 {
		return flags, usagef("--timeout %q: must be above zero; write one such as 30s", text)
	}
	return flags, nil
}

func readNumber(given map[string][]string, name string, least int, to *int) error {
	text, err := single(given, name)
	if err != nil || len(given[name]) == 0 {
		return err
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < least || number > lock.MaxSlots {
		return usagef("--%s %q: is no number from %d to %d%s", name, text, least, lock.MaxSlots, insteadOfZero(name, number, err))
	}
	*to = number
	return nil
}

func insteadOfZero(name string, number int, err error) string {
	if name == "slots" && err == nil && number == 0 {
		return "; use 'berth semaphore destroy' to remove the semaphore"
	}
	return "; give one"
}

// single returns the value of a flag that may be given once, "" if it was not.
func single(given map[string][]string, name string) (string, error) {
	texts := given[name]
	switch {
	case len(texts) > 1:
		return "", usagef("--%s is given %d times; keep one of them", name, len(texts))
	case len(texts) == 1 && texts[0] == "":
		return "", usagef("--%s has an empty value; give it one, or leave the flag out", name)
	case len(texts) == 1:
		return texts[0], nil
	}
	return "", nil
}

// actionContext ends at the action's time limit and on TERM, INT, QUIT and HUP,
// with a cause that says which. release frees it.
func actionContext(parent context.Context, flags actionFlags) (ctx context.Context, release func()) {
	limit := flags.timeout
	if limit == 0 && !flags.wait {
		limit = actionTimeout
	}
	ctx, cancel := context.WithCancelCause(parent)
	free := func() {}
	if limit > 0 {
		ctx, free = context.WithTimeoutCause(ctx, limit, gaveUp{limit})
	}
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, heeded()...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case sig := <-caught:
			cancel(signalled{sig.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(caught)
		free()
		cancel(nil)
		<-done
	}
}

// heeded returns the signals that end an action, without those that whoever
// started berth wanted ignored (nohup).
func heeded() []os.Signal {
	ends := []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP}
	return slices.DeleteFunc(ends, signal.Ignored)
}

// gaveUp is the cause of an action that reached its time limit.
type gaveUp struct{ after time.Duration }

func (g gaveUp) Error() string { return fmt.Sprintf("gave up after %s, see --timeout", g.after) }
func (g gaveUp) Unwrap() error { return context.DeadlineExceeded }

// reason adds why an action ended early to the error that it ended with.
func reason(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(err, cause) {
		return fmt.Errorf("%w (%w)", err, cause)
	}
	return err
}

// change is Resize. Its error says how far the change got and which command
// finishes it. Another administrator is not waited for without limit, even with
// --wait, which is about holders.
func (a *administration) change(ctx context.Context, sweep int, target func(present int) (int, error)) (before, after int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if a.flags.timeout == 0 {
		others := time.AfterFunc(actionTimeout, func() { cancel(gaveUp{actionTimeout}) })
		defer others.Stop()
		asked := target
		target = func(present int) (int, error) {
			others.Stop()
			return asked(present)
		}
	}
	want, begun := 0, false
	before, after, err = a.Resize(ctx, sweep, func(present int) (n int, err error) {
		n, err = target(present)
		want, begun = n, err == nil
		return n, err
	})
	if err == nil || !begun {
		return before, after, reason(ctx, err)
	}
	err = fmt.Errorf("%w; to finish use: %s", err, a.again(before, after, want))
	if before != after {
		err = fmt.Errorf("stopped on the way: %s now (was %d): %w", slots(after), before, err)
	}
	return before, after, reason(ctx, err)
}

// say prints a result on stdout.
func (a *administration) say(format string, args ...any) error {
	_, err := fmt.Fprintf(a.c.App.Writer, "%s: %s\n", a.id, fmt.Sprintf(format, args...))
	return err
}

// awaitVacant waits, if --wait asks for it, until nobody holds a slot above
// kept. The sweep is included: so an action that was interrupted while it waited
// can be taken up again and waits for the same holders.
func (a *administration) awaitVacant(ctx context.Context, kept, highest int) error {
	if !a.flags.wait {
		return nil
	}
	last := min(highest+max(a.flags.overshoot, 1), lock.MaxSlots)
	if last <= kept {
		return nil
	}
	which := "every slot"
	if kept > 0 {
		which = fmt.Sprintf("every slot above %d", kept)
	}
	fmt.Fprintf(a.c.App.ErrWriter, "%s: waiting until %s of %s is vacant\n", a.c.Command.HelpName, which, a.id)
	err := a.AwaitVacant(ctx, kept+1, last)
	if errors.Is(err, lock.ErrBusy) { // to try again would remove what somebody has made
		return fmt.Errorf("the slots were removed, but there is nothing to wait for any more: %w", err)
	}
	if err != nil {
		return fmt.Errorf("the slots are removed, but %s may still be held: %w; to go on waiting use: %s", which, err, a.again(highest, kept, kept))
	}
	return a.say("%s vacant", which)
}

// again returns the command that finishes an action which began with so many
// slots, left so many and wanted so many. It names the number that is wanted:
// what was given as --add or --remove would be added or removed once more.
func (a *administration) again(before, after, want int) string {
	command, flags := a.c.Command.HelpName, []string(nil)
	if a.id.Kind == lock.Semaphore && want > 0 {
		command, flags = "berth semaphore create", []string{fmt.Sprintf("--slots %d", want)}
		if after > 0 {
			command = "berth semaphore resize"
		}
	}
	if a.flags.wait {
		flags = append(flags, "--wait")
		// The next one begins with fewer slots, and has to wait for as many.
		if overshoot := max(a.flags.overshoot, before-after); overshoot != defaultOvershoot {
			flags = append(flags, fmt.Sprintf("--overshoot %d", overshoot))
		}
	}
	return a.commandLine(command, flags...)
}

// commandLine is for a user to paste: another action on the same lock.
func (a *administration) commandLine(command string, flags ...string) string {
	return a.id.CommandLine(command, slices.Concat(flags, a.naming)...)
}
