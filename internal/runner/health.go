package runner

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/boottime"
	"berth/internal/config"
	"berth/internal/guard"
	"berth/internal/guard/wire"
	"berth/supervisor"
)

const (
	// maxOutput is how much of what a check writes is logged: the end of it.
	maxOutput = 2 << 10
	// lastOutput is how long the rest of it is waited for where somebody outside the check's tree has it open.
	lastOutput = 100 * time.Millisecond
)

// findCheck finds the program of the health checks. Its error wraps config.ErrInvalid.
func findCheck(cfg config.Run) (program, error) {
	if cfg.Health.Command == nil {
		return program{}, nil
	}
	path, err := findFor(cfg, cfg.Health.Command[0])
	if err != nil {
		return program{}, config.Invalidf("health_command: %v", err)
	}
	return program{path, cfg.Health.Command}, nil
}

// health returns what judges the command; the zero value if nothing is to.
func health(cfg config.Run, guards *guard.Host, command guard.Spec, check program, log hclog.Logger) supervisor.Health {
	h := cfg.Health
	if h.Command == nil {
		return supervisor.Health{}
	}
	stuck := func(e wire.Event) {
		if e.Kind == wire.Lasting {
			log.Error("KILL does not end a process of a health check; the slot is not given back before it has ended",
				"process", e.Pid, "about", e.About)
			return
		}
		log.Error("a process of a health check may not be signalled (EPERM); the slot is not given back before it has "+
			"ended", "process", e.Pid)
	}
	run := func(ctx context.Context, start supervisor.Start, renewed <-chan boottime.Instant) supervisor.Verdict {
		spec := check.beside(command)
		output, written, err := gather()
		if err != nil {
			return supervisor.Verdict{Outcome: supervisor.CheckUnknown, Problem: err.Error()}
		}
		spec.Output = output
		err = guards.Run(ctx, spec, guard.Beside{Limit: h.Timeout, Start: start, Renewed: renewed, Stuck: stuck})
		return verdict(err, written())
	}
	return supervisor.Health{Check: run, Interval: h.Interval, StartPeriod: h.StartPeriod, Retries: h.Retries,
		WhileWaiting: h.WhileWaiting}
}

// verdict is what a check has found out that has ended so.
func verdict(err error, output string) supervisor.Verdict {
	switch {
	case err == nil:
		return supervisor.Verdict{Outcome: supervisor.CheckSucceeded}
	case errors.Is(err, guard.ErrUnjudged), errors.Is(err, context.Canceled):
		return supervisor.Verdict{Outcome: supervisor.CheckUnknown, Problem: err.Error(), Output: output}
	}
	return supervisor.Verdict{Outcome: supervisor.CheckFailed, Problem: err.Error(), Output: output}
}

// gather returns what a program can write to, and what ends that and returns the end of what it has written. Everything
// is read: a program that writes much must not be kept waiting for that.
func gather() (output *os.File, written func() string, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	done := make(chan []byte)
	go func() {
		var last []byte
		piece := make([]byte, maxOutput)
		for {
			n, err := r.Read(piece)
			if last = append(last, piece[:n]...); len(last) > maxOutput {
				last = append([]byte(nil), last[len(last)-maxOutput:]...)
			}
			if err != nil {
				done <- last
				return
			}
		}
	}()
	return w, func() string {
		w.Close()
		_ = r.SetReadDeadline(time.Now().Add(lastOutput))
		last := <-done
		r.Close()
		return strings.ToValidUTF8(strings.TrimSpace(string(last)), "\ufffd")
	}, nil
}
