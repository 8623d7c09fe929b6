package compare

import (
	"context"
	"time"

	"berth/test/bench/measure"
	"berth/test/bench/report"
)

// processor measures the processor time of runs whose command ends at once: a series
// of one program, then of the next.
func (a *Arena) processor(ctx context.Context) ([]*report.Measure, error) {
	wrappers := &report.Measure{Title: titleProcessor, Unit: "ms", Plot: true}
	servers := &report.Measure{Title: titleServer, Unit: "ms", Plot: true}
	command := &program{name: "the command", wrap: func(_ string, command []string) []string { return command }}
	for _, p := range a.programs {
		if p.server == nil {
			servers.Of(p.name).Text = "no server"
		}
		if _, err := a.pass(ctx, p, p.wrap, "processor"); err != nil { // the lock is not new to what is measured
			return nil, err
		}
	}
	err := a.rounds(ctx, a.sizes.Windows, a.programs, func(_ int, p *program) error {
		alone, _, err := a.series(ctx, command)
		if err != nil {
			return err
		}
		wrapped, server, err := a.series(ctx, p)
		if err != nil {
			return err
		}
		wrappers.Add(p.name, measure.Milliseconds(wrapped-alone))
		if p.server != nil {
			servers.Add(p.name, measure.Milliseconds(server))
		}
		return nil
	})
	return []*report.Measure{wrappers, servers}, err
}

// series returns the mean processor time of runs, one after the other: of the wrapper
// with its command, and of the server, 0 where there is none.
func (a *Arena) series(ctx context.Context, p *program) (wrapper, server time.Duration, err error) {
	before, err := p.server.taken(ctx)
	if err != nil {
		return 0, 0, err
	}
	for range a.sizes.Rounds {
		one, err := a.processorTime(ctx, p)
		if err != nil {
			return 0, 0, err
		}
		wrapper += one
	}
	after, err := p.server.taken(ctx)
	runs := time.Duration(a.sizes.Rounds)
	return wrapper / runs, (after - before) / runs, err
}

// processorTime runs a wrapper once and returns what it has taken, with all that it
// has waited for.
func (a *Arena) processorTime(ctx context.Context, p *program) (time.Duration, error) {
	t, err := a.launch(p, p.wrap, "processor", 0)
	if err != nil {
		return 0, err
	}
	defer t.close()
	_, err = t.awaitEnd(ctx)
	if err != nil {
		return 0, err
	}
	return t.State().UserTime() + t.State().SystemTime(), nil
}

// taken returns the processor time of a server once it has had time to clean up, 0 if
// there is none.
func (s *server) taken(ctx context.Context) (time.Duration, error) {
	if s == nil {
		return 0, nil
	}
	const cleaning = 500 * time.Millisecond
	if err := measure.Sleep(ctx, cleaning); err != nil {
		return 0, err
	}
	usage, err := measure.UsageOf(s.pid)
	return usage.CPU, err
}
