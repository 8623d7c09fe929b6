package cli

import (
	"berth/internal/config"
	"berth/lock"
	"berth/lock/local"
	"berth/lock/rabbit"

	"github.com/hashicorp/go-hclog"
)

// openBackend returns where the locks live. It does no I/O. The priority is that
// of who waits for one; once is for who does not.
func openBackend(cfg config.Connection, priority int, once bool, log hclog.Logger) (lock.Backend, error) {
	if cfg.Local {
		return checked(local.New(local.Config{Dir: cfg.Directory, Log: log}))
	}
	broker := rabbitConfig(cfg, log)
	broker.Priority, broker.Once = priority, once
	return checked(rabbit.New(broker))
}

func rabbitConfig(cfg config.Connection, log hclog.Logger) rabbit.Config {
	return rabbit.Config{
		URLs:      cfg.Brokers,
		Naming:    rabbit.Naming(cfg.Naming),
		Heartbeat: cfg.Heartbeat,
		Log:       log,
	}
}

// namingFlags are the flags with which a command line that a user may paste finds
// the same queues. Local locks have none.
func namingFlags(cfg config.Connection) []string {
	if cfg.Local {
		return nil
	}
	return rabbit.Naming(cfg.Naming).Flags()
}

// checked marks what a backend objects to before any I/O as a mistake in the
// configuration, and keeps a nil backend out of the interface.
func checked[B lock.Backend](backend B, err error) (lock.Backend, error) {
	if err != nil {
		return nil, &mistake{err.Error(), config.ErrInvalid}
	}
	return backend, nil
}
