// Package runner is `berth run` once it is configured: it puts a backend, a guard
// and the supervisor together and runs the command.
//
//	queue := runner.QueueSignals(exit)
//	defer queue.End()
//	exit := runner.Run(cfg, load, queue, log)
//
// It makes what the supervisor is given: the program's path, its environment, the
// signals, the observers. It knows no flags, and decides nothing that the
// supervisor could.
package runner

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/internal/backends"
	"berth/internal/config"
	"berth/internal/control"
	"berth/internal/guard"
	"berth/internal/observe/feed"
	"berth/internal/timing"
	"berth/lock"
	"berth/supervisor"
	"berth/supervisor/loop"
)

// ErrNoGuard: this host does not let berth start a guard.
var ErrNoGuard = errors.New("cannot start guards")

// Run runs the command until it has ended for good. Status 0 beside an error means
// that the error alone says what happened: it wraps one of package lock's,
// config.ErrInvalid, guard.ErrNamespace, ErrNoGuard or, where the command cannot be
// executed, ENOENT or EACCES.
//
// again reads the configuration once more, when somebody who may has asked for that.
func Run(cfg config.Run, again func() (config.Run, error), queue *SignalQueue, log hclog.Logger) supervisor.Exit {
	// This process waits, mostly. What one goroutine wakes goes on at once on the
	// same processor, instead of on another that has to be woken for it.
	runtime.GOMAXPROCS(1)
	// What a start leaves behind is more than what a waiter needs for as long as it waits.
	debug.SetGCPercent(50)
	path, err := findFor(cfg, cfg.Command[0])
	if err != nil {
		return supervisor.Exit{Err: err}
	}
	if err := CheckRights(cfg); err != nil {
		return supervisor.Exit{Err: config.Invalidf("%v", err)}
	}
	programs, err := findHooks(cfg)
	if err != nil {
		return supervisor.Exit{Err: err}
	}
	check, err := findCheck(cfg)
	if err != nil {
		return supervisor.Exit{Err: err}
	}
	backend, err := backends.Open(cfg.Connection, lock.Contention{
		Priority: cfg.Priority, Takeover: cfg.Takeover, Once: cfg.Try, Admins: cfg.Admins,
	}, log) // which names the lock by itself
	if err != nil {
		return supervisor.Exit{Err: err}
	}
	contender := backend.Lock(cfg.Lock)
	log = log.With("lock", cfg.Lock.Name)
	for _, warning := range cfg.Warnings {
		log.Warn(warning)
	}
	told, err := listen(cfg, backend, contender, log)
	if err != nil {
		return supervisor.Exit{Err: err}
	}
	defer told.Close()
	watched, err := watch(cfg, told)
	if err != nil {
		return supervisor.Exit{Err: config.Invalidf("%v", err)}
	}
	defer watched.close()
	guards, err := guard.NewHost()
	if err != nil {
		return supervisor.Exit{Err: lock.Errorf(ErrNoGuard, "%w", err)}
	}
	guards.Prepare = queue.takeLate
	env := commandEnv(os.Environ(), cfg)
	spec := guard.Spec{
		Dir: guard.LeaveDir(), Enter: cfg.WorkingDirectory, Path: path, Args: cfg.Command, Env: env,
		Numbered: numbered(env), Credential: cfg.Credential, Rights: cfg.Rights, Namespace: cfg.PIDNamespace,
	}
	queue.queueAll()
	asked := control.NewServer(control.Config{Log: log})
	asked.Begin()
	exit := loop.Run(supervisor.Config{
		ID:       cfg.Lock,
		Lock:     contender,
		Launch:   func() (supervisor.Guard, error) { return guards.Launch(spec) },
		Signals:  queue.out,
		Terminal: terminal(),
		Rewrites: cfg.Rewrites,

		Stop:           cfg.Stop,
		StopTo:         cfg.StopTo,
		Loss:           cfg.Loss,
		VerifyInterval: cfg.VerifyInterval,
		VerifyTimeout:  cfg.VerifyTimeout,
		Margin:         timing.Margin,

		Try:     cfg.Try,
		Timeout: cfg.Timeout,
		OnLoss:  cfg.OnLoss,
		OnDoubt: cfg.InDoubt,
		Restart: cfg.Restart,

		Takeover: takeOver(cfg, guards, spec, backend, log),
		Asked:    asked.Requests(),
		Reload:   reload(cfg, again, guards, spec, backend, told, log),

		Hooks:       launchers(guards, spec, programs),
		HookTimeout: cfg.HookTimeout,

		Health: health(cfg, guards, spec, check, log),
		MaxRun: cfg.MaxRun,

		CreateCommand: cfg.Lock.CreateCommand(backends.NamingFlags(cfg.Connection)...),

		Observer: watched,
		Tally:    watched.tally(),
		Beat:     watched.beats(),

		Holder: holder(),
		Self:   self(cfg),
		Log:    log,
	})
	asked.End()
	guards.Close() // not when Run panics: it would wait for a guard that waits for our end
	switch {
	case errors.Is(exit.Err, supervisor.ErrNotExecuted):
		exit.Err = notExecuted(spec, exit.Err)
	case errors.Is(exit.Err, guard.ErrNamespace):
		exit.Status = 0 // not the command is at fault
	}
	return exit
}

// hasTerminal reports whether berth has a controlling terminal (tty(4)).
func hasTerminal() bool {
	fd, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

// terminal returns what tells whether berth's terminal is still there, nil if
// berth has none.
func terminal() func() bool {
	if !hasTerminal() {
		return nil
	}
	return hasTerminal
}

// reload returns what reads the configuration again, in the directory that berth was started in, and has take effect
// what is not the supervisor's.
func reload(cfg config.Run, again func() (config.Run, error), guards *guard.Host, spec guard.Spec,
	backend lock.Backend, told *feed.Feed, log hclog.Logger,
) func() (supervisor.Reloaded, error) {
	return func() (supervisor.Reloaded, error) {
		var now config.Run
		var programs map[supervisor.Hook]program
		err := guard.InDir(spec.Dir, func() (err error) {
			if now, err = again(); err == nil {
				programs, err = findHooks(now)
			}
			return err
		})
		if err != nil {
			return supervisor.Reloaded{}, err
		}
		next, took, kept, err := cfg.Reload(now)
		if err == nil {
			err = backends.SetLogin(backend, next.Connection)
		}
		if err != nil {
			return supervisor.Reloaded{}, err
		}
		cfg = next
		log.SetLevel(hclog.LevelFromString(next.LogLevel))
		backend.SetAdmins(next.Admins)
		told.SetArithmetic(arithmetic(next))
		return supervisor.Reloaded{Stop: next.Stop, StopTo: next.StopTo, Loss: next.Loss,
			Hooks: launchers(guards, spec, programs), HookTimeout: next.HookTimeout, Took: took, Kept: kept}, nil
	}
}

// host is this host's name.
func host() string {
	name, err := os.Hostname()
	if err != nil {
		name = "localhost"
	}
	return name
}

// holder names this berth among all others: host and process.
func holder() string { return fmt.Sprintf("%s:%d", host(), os.Getpid()) }

// self is what does not change of what this berth says of itself.
func self(cfg config.Run) lock.Report {
	return lock.Report{
		Holder: holder(), Host: host(), PID: os.Getpid(), Version: cfg.Version, Command: cfg.Command[0],
		Priority: cfg.Priority,
	}
}
