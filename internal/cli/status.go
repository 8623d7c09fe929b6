package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/urfave/cli/v2"

	"berth/internal/backends"
	"berth/internal/cli/flags"
	"berth/internal/config"
	"berth/internal/display"
	"berth/internal/inquire"
	"berth/internal/interrupt"
	"berth/internal/logging"
	"berth/internal/management"
	"berth/lock"
	"berth/supervisor"
)

const aboutStatus = `Prints for each slot of a lock whether it is held, by which host and process,
under which term, since when, what runs in it, when that was last verified, and
which berth is the successor; and how many wait. Holders answer by themselves; a
? stands for one that does not. Looking changes nothing.

With --watch, keeps a table up to date: in a terminal it takes the window, with
several slots in a line if there are many, and highlights slots that change.
Elsewhere it prints the table, or with --json an object, after each change. It
reports a broker that goes away, and waits for it.

Without a lock, lists the locks: on this host all, and whether they are held;
over a broker, with --management-url, those that its queues show. On classic
queues a persistent mutex looks like a semaphore of one slot, and a mutex is
there only while it is held; on quorum queues a semaphore looks like a token
semaphore, which is the same lock there.

Examples:
  berth status --semaphore workers
  berth status --semaphore workers --watch
  berth status --mutex importer --json
  berth status --management-url http://rabbit:15672
`

// defaultInterval is half of what a change may take to be seen.
const defaultInterval = 500 * time.Millisecond

// The flags that only `berth status` has.
var statusOptions = []config.Option{
	jsonOption,
	flagOnly("watch", "", config.Switch, "Keep watching until Ctrl-C, and show what changes."),
	flagOnly("interval", "DURATION", config.Duration,
		"How often --watch looks, "+inquire.LeastInterval.String()+" at least. Default: "+defaultInterval.String()+"."),
	flagOnly("management-url", "URL", config.Text,
		"List the locks that RabbitMQ's management API at http://HOST:15672, or https://, knows of. Its login is "+
			"that of --broker, unless the URL has one."),
}

func statusCommand() *cli.Command {
	return command(cli.Command{
		Name:  "status",
		Usage: "print who holds a lock, and the successor",
		UsageText: "berth status LOCK [--json] [--watch [--interval DURATION]] [flags]\n" +
			"berth status [--management-url URL] [--json] [flags]",
		Description: aboutStatus,
		Flags:       append(flags.For(statusOptions), flags.For(inquiryOptions())...),
		Action:      statusAction,
	}, exitStatusesOfStatus)
}

// statusRequest is what `berth status` is asked for.
type statusRequest struct {
	json, watch bool
	interval    time.Duration
	management  string // a URL
}

func readStatusRequest(given map[string][]string) (statusRequest, error) {
	read := flags.Read(given)
	r := statusRequest{json: read.Switch("json"), watch: read.Switch("watch"), interval: read.Duration("interval"),
		management: read.URL("management-url", "http", "https")}
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
	cfg, id, err := lockOf(c)
	if err != nil {
		return err
	}
	if id.Name == "" {
		return list(c, cfg, request)
	}
	if request.management != "" {
		return config.Usagef("--management-url is for listing locks; leave it out, or the lock")
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
	view := display.View{ID: id, Naming: q.Naming}
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
		err = follow(ctx, q, view, os.Stdout, request)
	default:
		err = once(ctx, q, view, c.App.Writer, request.json)
	}
	return errors.Join(err, q.Inspector.Close())
}

// list prints which locks there are.
func list(c *cli.Context, cfg config.Connection, r statusRequest) error {
	if r.watch {
		return config.Usagef("--watch needs a lock; give %s with its name", config.LockFlags())
	}
	ctx, release := interrupt.Context(c.Context, actionTimeout)
	defer release()
	ids, none, err := locks(ctx, cfg, r.management)
	var all []display.View
	if err == nil {
		all, err = looks(ctx, cfg, ids)
	}
	switch {
	case err != nil:
		return interrupt.Because(ctx, err)
	case r.json:
		return display.WriteJSONList(c.App.Writer, all)
	case len(all) == 0: // on stderr: stdout has one lock a line, for scripts too
		_, err = fmt.Fprintln(c.App.ErrWriter, none)
		return err
	}
	return display.WriteList(c.App.Writer, all)
}

// looks returns what is known of locks: on this host that of each, over a broker their names.
func looks(ctx context.Context, cfg config.Connection, ids []lock.ID) (all []display.View, err error) {
	for _, id := range ids {
		view := display.View{ID: id}
		if cfg.Local {
			q, err := about(cfg, id, hclog.NewNullLogger())
			if err != nil {
				return nil, err
			}
			view.Seen.Status, view.Seen.Err = q.Inspector.Look(ctx)
			if err := errors.Join(q.Inspector.Close(), ctx.Err()); err != nil {
				return nil, err
			}
		}
		all = append(all, view)
	}
	return all, nil
}

// locks returns which locks there are, and what is to be said if there is none. A broker says it by its management API
// alone.
func locks(ctx context.Context, cfg config.Connection, api string) (ids []lock.ID, none string, err error) {
	if !cfg.Local {
		if api == "" {
			return nil, "", config.Usagef("no lock is named; give %s with its name, or --management-url "+
				"http://HOST:15672 to list locks, because a broker does not tell otherwise", config.LockFlags())
		}
		access := management.Access{URL: api, Broker: cfg.Brokers[0], NAL: cfg.Naming == config.NamingNAL}
		ids, err = management.Locks(ctx, access)
		return ids, "no locks in " + access.String() + "; a mutex on classic queues is there only while it is held", err
	}
	if api != "" {
		return nil, "", config.Usagef("--management-url is a broker's; locks of this host are listed without it")
	}
	ids, directory, err := backends.ListDirectory(ctx, cfg)
	if errors.Is(err, lock.ErrAbsent) {
		return nil, "no locks: " + err.Error(), nil
	}
	return ids, "no locks in " + directory, err
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

// follow prints every change until a signal comes, or until nobody reads it any more.
func follow(parent context.Context, q *inquire.Inquiry, view display.View, w *os.File, r statusRequest) error {
	read, release, err := interrupt.WhenUnread(parent, w)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithCancel(read)
	defer cancel()
	var failed error
	first := true
	err = q.Watch(ctx, r.interval, func(seen inquire.Seen) {
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
	return errors.Join(err, failed, signalled(read))
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
	return supervisor.Exit{Status: supervisor.ExitSignal + int(by.Signal)}
}
