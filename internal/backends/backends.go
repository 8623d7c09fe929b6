// Package backends lists the places where locks can live: RabbitMQ, and this host.
// It is the only one that chooses between them by the configuration:
//
//	backend, err := backends.Open(cfg, lock.Contention{}, log)
//
// What a lock is, package lock says; how it is kept, the backends know.
package backends

import (
	"context"
	"fmt"

	"al.essio.dev/pkg/shellescape"
	"github.com/hashicorp/go-hclog"

	"berth/internal/config"
	"berth/lock"
	"berth/lock/local"
	"berth/lock/rabbit"
)

// Open returns the backend that the configuration names. It does no I/O. Local locks have no order of waiters. Its error
// wraps config.ErrInvalid.
func Open(cfg config.Connection, as lock.Contention, log hclog.Logger) (lock.Backend, error) {
	if cfg.Local {
		return checked(local.New(local.Config{Dir: cfg.Directory, Admins: as.Admins, Log: log}))
	}
	broker := rabbitConfig(cfg, log)
	broker.Contention = as
	return checked(rabbit.New(broker))
}

// SetLogin changes how a backend of Open logs in where its locks live, which is the same place: connections that are
// open stay.
func SetLogin(backend lock.Backend, cfg config.Connection) error {
	if b, ok := backend.(*rabbit.Backend); ok {
		return b.SetLogins(cfg.Source(), cfg.Brokers)
	}
	return nil
}

// InspectBroker asks the broker whether it can carry the lock; see
// rabbit.Backend.Inspect. An error that wraps config.ErrInvalid means that it was
// not asked.
func InspectBroker(ctx context.Context, cfg config.Run, log hclog.Logger) (rabbit.Report, error) {
	backend, err := rabbit.New(rabbitConfig(cfg.Connection, log))
	if err != nil {
		return rabbit.Report{}, config.Invalidf("%v", err)
	}
	return backend.Inspect(ctx, cfg.Lock)
}

// InspectDirectory looks whether local locks can be kept where they are to be; see
// local.Backend.Inspect.
func InspectDirectory(cfg config.Run) error {
	backend, err := local.New(local.Config{Dir: cfg.Directory})
	if err != nil {
		return config.Invalidf("%v", err)
	}
	return backend.Inspect(cfg.Lock)
}

// ListDirectory returns the locks of this host, and in which directory they are; see
// local.Backend.Locks.
func ListDirectory(ctx context.Context, cfg config.Connection) (ids []lock.ID, directory string, err error) {
	backend, err := local.New(local.Config{Dir: cfg.Directory})
	if err != nil {
		return nil, "", config.Invalidf("%v", err)
	}
	ids, err = backend.Locks(ctx)
	return ids, backend.Directory(), err
}

func rabbitConfig(cfg config.Connection, log hclog.Logger) rabbit.Config {
	return rabbit.Config{
		URLs:      cfg.Brokers,
		Source:    cfg.Source(),
		Naming:    rabbit.Naming(cfg.Naming),
		Probe:     rabbit.Probing(cfg.Probe),
		Protocol:  rabbit.Protocol(cfg.Protocol),
		QueueType: rabbit.QueueType(cfg.QueueType),
		Users:     cfg.LockUsers,
		Heartbeat: cfg.Heartbeat,
		Log:       log,
	}
}

// checked marks what a backend objects to before any I/O as a mistake in the
// configuration, and keeps a nil backend out of the interface.
func checked[B lock.Backend](backend B, err error) (lock.Backend, error) {
	if err != nil {
		return nil, config.Invalidf("%v", err)
	}
	return backend, nil
}

// NamingFlags are the flags with which a command line that a user may paste finds
// the same queues, and reads them in the same way. Local locks have none.
func NamingFlags(cfg config.Connection) []string {
	if cfg.Local {
		return nil
	}
	all := rabbit.Naming(cfg.Naming).Flags()
	if cfg.Protocol == config.ProtocolPlain {
		all = append(all, "--protocol "+config.ProtocolPlain)
	}
	if cfg.QueueType != "" {
		all = append(all, "--queue-type "+cfg.QueueType)
	}
	for _, user := range cfg.LockUsers {
		all = append(all, "--lock-users "+shellescape.Quote(user))
	}
	return all
}

// ExecuteWill is what a guard does for a supervisor that has died, once dead is closed:
// the tree is dead by then; see lock.Handover. Local locks write no wills: the guard
// holds their files.
func ExecuteWill(ctx context.Context, will []byte, dead <-chan struct{}) error {
	backend, _ := lock.OpenWill(will)
	if backend != rabbit.WillName {
		return fmt.Errorf("cannot execute a will of backend %q, which is not known", backend)
	}
	executor, err := rabbit.PrepareWill(will, nil)
	if err != nil {
		return err
	}
	<-dead // as sure as the guard goes on killing
	return executor.Execute(ctx)
}
