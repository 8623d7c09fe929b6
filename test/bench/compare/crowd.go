package compare

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"berth/test/bench/measure"
	"berth/test/bench/report"
)

// idle measures what waiters that wait and nothing else cost a server. All servers
// are watched at the same time.
func (a *Arena) idle(ctx context.Context) ([]*report.Measure, error) {
	counted, errs := make([]measure.Messages, len(a.programs)), make([]error, len(a.programs))
	var group sync.WaitGroup
	for i, p := range a.programs {
		if p.traffic != nil {
			group.Go(func() { counted[i], errs[i] = a.countIdle(ctx, p) })
		}
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	title := fmt.Sprintf("%d idle waiters: ", a.sizes.Idlers)
	all := &report.Measure{Title: title + "messages to the server", Unit: "per s", Plot: true}
	others := &report.Measure{Title: title + "messages both ways that are no keepalives", Unit: "per s"}
	measures := []*report.Measure{all, others}
	for i, p := range a.programs {
		if p.traffic == nil {
			for _, m := range measures {
				m.Of(p.name).Text = "no server"
			}
			continue
		}
		all.Add(p.name, counted[i].Requests+counted[i].Keepalives)
		others.Add(p.name, counted[i].Requests+counted[i].Answers)
	}
	return measures, nil
}

// countIdle has waiters wait, and counts once they have settled.
func (a *Arena) countIdle(ctx context.Context, p *program) (none measure.Messages, err error) {
	release, err := p.traffic.hold(ctx, "idle")
	if err != nil {
		return none, err
	}
	defer release()
	var waiters []*attempt
	defer func() {
		var group sync.WaitGroup
		for _, w := range waiters {
			group.Go(w.close)
		}
		group.Wait()
	}()
	for range a.sizes.Idlers {
		w, err := a.launch(p, p.traffic.wrap, "idle", 0)
		if err != nil {
			return none, err
		}
		waiters = append(waiters, w)
	}
	if err := measure.Sleep(ctx, a.sizes.Settle); err != nil {
		return none, err
	}
	before, err := p.traffic.count(ctx)
	if err != nil {
		return none, err
	}
	began := measure.Now()
	if err := measure.Sleep(ctx, a.sizes.Idle); err != nil {
		return none, err
	}
	after, err := p.traffic.count(ctx)
	if err != nil {
		return none, err
	}
	seconds := float64(measure.Now()-began) / 1e9
	for _, w := range waiters {
		if err := w.await(ctx, 0); !errors.Is(err, errStillRuns) {
			return none, w.failed("it has not waited")
		}
		if s, err := w.stamps(); err != nil || s.Start != 0 {
			return none, w.failed("its command has started, although the lock is held")
		}
	}
	return after.PerSecond(seconds, before), nil
}

// passes measures how many commands that end at once get their turn, and whether
// the loops that run them get equal shares.
func (a *Arena) passes(ctx context.Context) ([]*report.Measure, error) {
	var measures []*report.Measure
	one, four := a.titlesOfPasses()
	for _, title := range []string{one, four} {
		measures = append(measures,
			&report.Measure{Title: title, Unit: "per s", More: true, Plot: true},
			&report.Measure{Title: strings.Replace(title, "commands run", "the largest share over the smallest", 1), Unit: "ratio"})
	}
	for _, p := range a.programs {
		if p.four == nil {
			measures[2].Of(p.name).Text, measures[3].Of(p.name).Text = "one slot only", "one slot only"
		} else if err := p.makeFour(ctx, "passes-four"); err != nil {
			return nil, err
		}
	}
	err := a.rounds(ctx, a.sizes.Windows, a.programs, func(_ int, p *program) error {
		if err := a.loops(ctx, p, p.wrap, "passes", measures[0], measures[1]); err != nil || p.four == nil {
			return err
		}
		return a.loops(ctx, p, p.four, "passes-four", measures[2], measures[3])
	})
	return measures, err
}

// titlesOfPasses returns how many commands get their turn, on one slot and on four.
func (a *Arena) titlesOfPasses() (one, four string) {
	title := fmt.Sprintf("%d contenders, ", a.sizes.Contenders)
	return title + "one slot: commands run", title + "four slots: commands run"
}

// loops runs wrappers over and over, side by side, and counts for one window.
func (a *Arena) loops(ctx context.Context, p *program, wrap wrapper, lock string, passed, share *report.Measure) error {
	const warmUp = time.Second
	var stop atomic.Bool
	var group sync.WaitGroup
	starts, errs := make([][]int64, a.sizes.Contenders), make([]error, a.sizes.Contenders)
	for i := range starts {
		group.Go(func() {
			for !stop.Load() && errs[i] == nil {
				var s measure.Stamps
				s, errs[i] = a.pass(ctx, p, wrap, lock)
				starts[i] = append(starts[i], s.Start)
			}
		})
	}
	err := measure.Sleep(ctx, warmUp)
	began := measure.Now()
	if err == nil {
		err = measure.Sleep(ctx, a.sizes.Window)
	}
	ended := measure.Now()
	stop.Store(true) // those that wait get the lock from those that run, and end as well
	group.Wait()
	if err = errors.Join(append(errs, err)...); err != nil {
		return err
	}
	sum, counts := 0, make([]int, len(starts))
	for i := range starts {
		counts[i] = len(slices.DeleteFunc(starts[i], func(at int64) bool { return at < began || at >= ended }))
		sum += counts[i]
	}
	passed.Add(p.name, float64(sum)*1e9/float64(ended-began))
	least, most := slices.Min(counts), slices.Max(counts)
	if least == 0 {
		share.Of(p.name).Text = fmt.Sprintf("%d to none", most)
		return nil
	}
	share.Add(p.name, math.Round(100*float64(most)/float64(least))/100)
	return nil
}

// pass runs a wrapper once.
func (a *Arena) pass(ctx context.Context, p *program, wrap wrapper, lock string) (measure.Stamps, error) {
	t, err := a.launch(p, wrap, lock, 0)
	if err != nil {
		return measure.Stamps{}, err
	}
	defer t.close()
	return t.awaitEnd(ctx)
}
