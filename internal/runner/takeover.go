package runner

import (
	"context"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/backends"
	"berth/internal/config"
	"berth/internal/guard"
	"berth/internal/guard/wire"
	"berth/internal/inquire"
	"berth/internal/takeover"
	"berth/lock"
)

const (
	// takeoverAgain is after how long a holder that has accepted is asked again: longer than it takes to stop, as a rule.
	takeoverAgain = 10 * time.Second
	// readyTimeout bounds one run of the ready command.
	readyTimeout = 30 * time.Second
)

// takeOver returns what asks the holder to step down, nil if nobody is to be asked. The ready command is like a hook,
// but that nobody wants to read what it writes again and again.
func takeOver(cfg config.Run, guards *guard.Host, command guard.Spec, backend lock.Backend, log hclog.Logger,
) func(context.Context, int, func(string)) error {
	if !cfg.Takeover {
		return nil
	}
	shell := program{"/bin/sh", []string{"sh", "-c", cfg.ReadyCommand}}.beside(command)
	shell.Silent = true
	stuck := func(e wire.Event) {
		if e.Kind == wire.Lasting {
			log.Error("KILL does not end a process of the ready command; berth does not end before it has ended",
				"process", e.Pid, "about", e.About)
			return
		}
		log.Error("a process of the ready command may not be signalled (EPERM); berth does not end before it has ended",
			"process", e.Pid)
	}
	return func(ctx context.Context, slot int, tell func(string)) error {
		t := takeover.Takeover{
			ReadyFile: cfg.ReadyFile, ReadyCommand: cfg.ReadyCommand,
			Run: func(ctx context.Context) error {
				return guards.Run(ctx, shell, guard.Beside{Limit: readyTimeout, Stuck: stuck})
			},
			Tell: tell, Again: takeoverAgain, Log: log,
			Inquiry: &inquire.Inquiry{
				Inspector: backend.Inspector(cfg.Lock), ID: cfg.Lock, Naming: backends.NamingFlags(cfg.Connection),
			},
		}
		if t.ReadyFile != "" && !filepath.IsAbs(t.ReadyFile) {
			t.ReadyFile = filepath.Join(command.Dir, t.ReadyFile)
		}
		return t.Ask(ctx, slot)
	}
}
