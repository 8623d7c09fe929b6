package cli

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/internal/config"
	"berth/internal/guard"
	"berth/supervisor"
)

// runCommand puts backend, guard and supervisor together and runs the command.
// Its result is nil or an error with an exit status; see Status.
func runCommand(cfg config.Run, queue *signalQueue, log hclog.Logger) error {
	// This process waits, mostly. What one goroutine wakes goes on at once on the
	// same processor, instead of on another that has to be woken for it.
	runtime.GOMAXPROCS(1)
	path, err := findCommand(cfg.Command[0])
	if err != nil {
		return err
	}
	backend, err := openBackend(cfg.Connection, cfg.Priority, cfg.Try, log)
	if err != nil {
		return err
	}
	host, err := guard.NewHost()
	if err != nil {
		return &decided{err, ExitCannotExecute}
	}

	watched, err := watch(cfg)
	if err != nil {
		return &decided{err, ExitConfig}
	}
	defer watched.close()
	queue.takeRealTime()
	env := commandEnv(os.Environ(), cfg.Account, cfg.PassNotify)
	spec := guard.Spec{
		Dir: guard.LeaveDir(), Path: path, Args: cfg.Command, Env: env, Numbered: numbered(env),
		Credential: cfg.Credential, Namespace: cfg.PIDNamespace,
	}
	queue.queueAll()
	outcome := supervisor.Run(supervisor.Config{
		ID:       cfg.Lock,
		Lock:     backend.Lock(cfg.Lock),
		Launch:   func() (supervisor.Guard, error) { return host.Launch(spec) },
		Signals:  queue.C(),
		Terminal: terminal(),
		Rewrites: cfg.Rewrites,

		Stop:           cfg.Stop,
		Loss:           cfg.Loss,
		VerifyInterval: cfg.VerifyInterval,
		VerifyTimeout:  cfg.VerifyTimeout,
		Margin:         config.Margin,

		Try:     cfg.Try,
		Timeout: cfg.Timeout,
		OnLoss:  cfg.OnLoss,
		OnDoubt: cfg.InDoubt,
		Restart: cfg.Restart,

		CreateCommand: cfg.Lock.CreateCommand(namingFlags(cfg.Connection)...),

		Observer: watched,
		Beat:     watched.systemd.Beats(),

		Holder: holder(),
		Log:    log.With("lock", cfg.Lock.Name),
	})
	host.Close() // not when Run panics: it would wait for a guard that waits for our end
	switch {
	case outcome.Err == nil:
		return exited(outcome.Status)
	case errors.Is(outcome.Err, supervisor.ErrNotExecuted):
		return &decided{notExecuted(spec, outcome.Err), outcome.Status}
	case errors.Is(outcome.Err, guard.ErrNamespace):
		return &decided{outcome.Err, ExitConfig}
	case outcome.Status != 0:
		return &decided{outcome.Err, outcome.Status}
	}
	return outcome.Err
}

// decided is an error whose exit status has been decided already.
type decided struct {
	err    error
	status int
}

func (d *decided) Error() string { return d.err.Error() }
func (d *decided) Unwrap() error { return d.err }

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

// holder names this berth among all others: host and process.
func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}
