package compare

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/test/bench/measure"
	"berth/test/bench/report"
)

// outcome is what one SIGKILL of a holder's wrapper has led to.
type outcome struct {
	next     float64 // seconds until the standby's command started
	never    bool    // it has not, within the program's bound
	survived bool    // the killed wrapper's command lived when it did, or all the time
}

// kill kills holders' wrappers.
func (a *Arena) kill(ctx context.Context) ([]*report.Measure, error) {
	outcomes := map[*program][]outcome{}
	err := a.rounds(ctx, a.sizes.Kills, a.programs, func(_ int, p *program) error {
		o, err := a.killOne(ctx, p)
		outcomes[p] = append(outcomes[p], o)
		return err
	})
	if err != nil {
		return nil, err
	}
	const killed = "Wrapper killed (SIGKILL): "
	next := &report.Measure{Title: killed + "until the standby's command starts", Unit: "s", Plot: true}
	survived := &report.Measure{Title: killed + "its command runs beside the standby's, or for good", Unit: "runs"}
	for _, p := range a.programs {
		nevers, survivors := 0, 0
		for _, o := range outcomes[p] {
			if o.survived {
				survivors++
			}
			if o.never {
				nevers++
			} else {
				next.Add(p.name, o.next)
			}
		}
		if nevers > 0 {
			next.Of(p.name).Text = fmt.Sprintf("never in %d of %d (waited %s)", nevers, a.sizes.Kills, p.killBound)
		}
		survived.Add(p.name, float64(survivors))
		survived.Of(p.name).Text = fmt.Sprintf("%d of %d", survivors, a.sizes.Kills)
	}
	return []*report.Measure{next, survived}, nil
}

// killOne has a standby wait and kills the holder's wrapper.
func (a *Arena) killOne(ctx context.Context, p *program) (o outcome, err error) {
	holder, err := a.launch(p, p.wrap, "kill", longRun)
	if err != nil {
		return o, err
	}
	defer holder.close()
	held, err := holder.awaitStart(ctx)
	if err != nil {
		return o, err
	}
	standby, err := a.launch(p, p.wrap, "kill", 0)
	if err != nil {
		return o, err
	}
	defer standby.close()
	if err := measure.Sleep(ctx, queueing); err != nil {
		return o, err
	}
	died, err := watchDeath(held.PID, p.killBound+patience)
	if err != nil {
		return o, err
	}
	struck := measure.Now()
	if err := holder.Signal(syscall.SIGKILL); err != nil {
		return o, fmt.Errorf("cannot kill the wrapper of %s: %w", p.name, err)
	}
	if err := standby.await(ctx, p.killBound); err != nil && !errors.Is(err, errStillRuns) {
		return o, err
	}
	dead := died.Load()
	s, err := standby.stamps()
	if err != nil {
		return o, err
	}
	if s.Start == 0 {
		return outcome{never: true, survived: dead == 0}, nil
	}
	// Strict: the moment of death is when we got to know of it.
	return outcome{next: float64(s.Start-struck) / 1e9, survived: dead == 0 || dead > s.Start}, nil
}

// watchDeath watches a process until it dies, or for bound. What it returns becomes
// the moment of its death, see measure.Now; 0 until then.
func watchDeath(pid int, bound time.Duration) (*atomic.Int64, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot watch the command: %w", err)
	}
	var at atomic.Int64
	go func() { // ends by itself: attempt.close kills the process
		defer unix.Close(fd)
		for end := time.Now().Add(bound); time.Now().Before(end); {
			left := int(time.Until(end).Milliseconds()) + 1
			if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, left); n > 0 && err == nil {
				at.Store(measure.Now())
				return
			}
		}
	}()
	return &at, nil
}
