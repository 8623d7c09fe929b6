package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/urfave/cli/v2"

	"berth/internal/cli/flags"
	"berth/internal/config"
	"berth/internal/display"
	"berth/internal/inquire"
	"berth/internal/interrupt"
	"berth/internal/logging"
	"berth/lock"
	"berth/supervisor"
)

const aboutStatus = `Says of each slot of a lock whether it is held, by which host and process, under
which term, since when, what runs in it, when that was verified last, who is next,
and how many wait. Holders answer by themselves; one that does not is said not to.
To look changes nothing.

With --watch, a table that is kept up to date: in a terminal it takes the window,
several slots in a line if there are many, and slots that have changed stand out.
Elsewhere it prints the table, or with --json an object, after each change. A broker
that goes away is said there, and waited for.

Examples:
  berth status --semaphore workers
  berth status --semaphore workers --watch
  berth status --mutex importer --json
`

// defaultInterval is half of what a change may take to be seen.
const defaultInterval = 500 * time.Millisecond

// The flags that only `berth status` has.
var statusOptions = []config.Option{
	jsonOption,
	flagOnly("watch", "", config.Switch, "Go on, and show what changes, until Ctrl-C."),
	flagOnly("interval", "DURATION", config.Duration,
		"How often --watch looks, "+inquire.LeastInterval.String()+" at least. Default: "+defaultInterval.String()+"."),
}

func statusCommand() *cli.Command {
	return command(cli.Command{
		Name:        "status",
		Usage:       "say who holds the slots of a lock, and who is next",
		UsageText:   "berth status LOCK [--json] [--watch [--interval DURATION]] [flags]",
		Description: aboutStatus,
		Flags:       append(flags.For(statusOptions), flags.For(inquiryOptions())...),
		Action:      statusAction,
	}, exitStatusesOfInquiry)
}

// statusRequest is what `berth status` is asked for.
type statusRequest struct {
	json, watch bool
	interval    time.Duration
}

func readStatusRequest(given map[string][]string) (statusRequest, error) {
	read := flags.Read(given)
	r := statusRequest{json: read.Switch("json"), watch: read.Switch("watch"), interval: read.Duration("interval")}
	switch {
	case read.Err() != nil:
		return r, read.Err()
	case r.interval != 0 && !r.watch:
		return r, config.Usagef("--interval is for --watch; leave it out, or add --watch")
	case r.interval != 0 && r.interval < inquire.LeastInterval:
		return r, config.Usagef("--interval %s: must be %s at least", r.interval, inquire.LeastInterval)
	case r.interval == 0:
		r.interval = defaultInterval
	}
	return r, nil
}

func statusAction(c *cli.Context) error {
	request, err := readStatusRequest(flags.Given(c, statusOptions))
	if err != nil {
		return err
	}
	cfg, id, err := oneLock(c)
	if err != nil {
		return err
	}
	var terminal *display.Terminal
	if request.watch && !request.json {
		terminal = display.OpenTerminal(os.Stdout)
	}
	log, flush := hclog.NewNullLogger(), func() {}
	if terminal == nil { // a log would be written across the screen
		log, flush = logging.New(cfg)
	}
	defer flush()
	q, err := about(cfg, id, log)
	if err != nil {
		return err
	}
	view := display.View{ID: id, Create: id.CreateCommand(q.Naming...)}
	limit := actionTimeout
	if request.watch {
		limit = 0
	}
	ctx, release := interrupt.Context(c.Context, limit)
	defer release()
	switch {
	case terminal != nil:
		err = live(ctx, q, view, terminal, request.interval)
	case request.watch:
		err = follow(ctx, q, view, c.App.Writer, request)
	default:
		err = once(ctx, q, view, c.App.Writer, request.json)
	}
	return errors.Join(err, q.Close())
}

// once prints what a look finds. A lock that does not exist is printed too where a script reads it.
func once(ctx context.Context, q *inquire.Inquiry, view display.View, w io.Writer, asJSON bool) error {
	status, err := q.Status(ctx)
	if err != nil && (!asJSON || !errors.Is(err, lock.ErrAbsent)) {
		return interrupt.Because(ctx, err)
	}
	view.Seen = inquire.Seen{At: time.Now(), Status: status}
	return errors.Join(show(view, w, asJSON), err)
}

func show(view display.View, w io.Writer, asJSON bool) error {
	if asJSON {
		return view.WriteJSON(w)
	}
	view.Now = time.Now()
	return view.WriteTable(w)
}

// follow prints every change until a signal comes.
func follow(parent context.Context, q *inquire.Inquiry, view display.View, w io.Writer, r statusRequest) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	var failed error
	first := true
	err := q.Watch(ctx, r.interval, func(seen inquire.Seen) {
		if !seen.News {
			return
		}
		if !first && !r.json {
			_, failed = io.WriteString(w, "\n")
		}
		first = false
		view.Seen = seen
		if failed = errors.Join(failed, show(view, w, r.json)); failed != nil {
			cancel()
		}
	})
	return errors.Join(err, failed, signalled(parent))
}

// live keeps a terminal up to date until a signal comes.
func live(parent context.Context, q *inquire.Inquiry, view display.View, terminal *display.Terminal,
	interval time.Duration) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	looks, looked := make(chan inquire.Seen), make(chan error, 1)
	go func() {
		defer cancel()
		looked <- q.Watch(ctx, interval, func(seen inquire.Seen) {
			select {
			case looks <- seen:
			case <-ctx.Done():
			}
		})
	}()
	err := view.Live(ctx, terminal, looks)
	cancel()
	return errors.Join(<-looked, err, signalled(parent))
}

// signalled is the end of a watch, about which nothing needs to be said.
func signalled(ctx context.Context) error {
	var by interrupt.Signalled
	if !errors.As(context.Cause(ctx), &by) {
		return nil
	}
	return exited(supervisor.ExitSignal + int(by.Signal))
}
