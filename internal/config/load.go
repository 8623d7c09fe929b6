package config

import (
	"errors"
	"slices"
	"time"

	"berth/internal/identity"
	"berth/lock"
	"berth/signals"
	"berth/supervisor"
)

// Input is where values come from.
type Input struct {
	// Flags are the flags that were given, by name without dashes, with their
	// values in the order given; "true" or "false" for a Switch.
	Flags map[string][]string

	// Command is what followed the flags; empty means that nothing did.
	Command []string

	// LookupEnv is os.LookupEnv. Nil means an empty environment.
	LookupEnv func(string) (string, bool)
}

// commandOption is the only option without a flag.
var commandOption = table[slices.IndexFunc(table, func(o Option) bool { return o.fileOnly })]

// Load returns the configuration of `berth run`. Its errors are one line each
// and wrap ErrUsage, ErrInvalid or lock.ErrUnsafe.
func Load(in Input) (Run, error) {
	s, err := in.resolve(table)
	if err != nil {
		return Run{}, err
	}
	switch {
	case s.Lock.Name == "":
		return Run{}, Usagef("no lock is named; give %s with its name", LockFlags())
	case len(s.Command) == 0:
		return Run{}, Usagef("no command is named; put it after the flags, such as -- /usr/bin/myprogram")
	}
	if err := s.checkBroker(); err != nil {
		return Run{}, err
	}
	switch {
	case s.Takeover && s.Try:
		return Run{}, Usagef("--takeover and --try exclude each other: a holder that steps down takes time")
	case !s.Takeover && s.ReadyFile+s.ReadyCommand != "":
		return Run{}, Usagef("--ready-file and --ready-command need --takeover: they set when the holder is asked")
	}
	if s.Health.Command == nil && s.Health.WhileWaiting {
		return Run{}, Usagef("--health-while-waiting needs --health-command: it has that run while berth waits, too")
	}
	if s.PassNotify && (s.OnLoss != supervisor.NoRetry || s.Restart != supervisor.Never) {
		return Run{}, Invalidf("--pass-notify needs --on-loss exit and no --restart: " +
			"once the command has sent STOPPING, the service ends for systemd, and a next run of it would be killed")
	}
	if err := errors.Join(s.checkProtocol(), s.CheckQueues(s.Lock)); err != nil {
		return Run{}, err
	}
	if !s.Local {
		if err := s.Timings().Check(); err != nil {
			return Run{}, err
		}
	}
	return s.Run, nil
}

// LoadCheck returns the configuration that `berth check` looks at: that of Load,
// except that lock, broker and command may be missing (Lock.Name, Brokers and
// Command are empty then) and that timings may be unsafe. Its errors are those
// of Load otherwise.
func LoadCheck(in Input) (Run, error) {
	s, err := in.resolve(table)
	if err != nil {
		return Run{}, err
	}
	if err := errors.Join(s.checkProtocol(), s.CheckQueues(s.Lock)); err != nil {
		return Run{}, err
	}
	return s.Run, nil
}

// LoadConnection returns the part of the configuration that administration
// commands need. Of the file and the environment, values of other options are
// not looked at, but a key that does not exist is still an error. Errors are
// those of Load.
func LoadConnection(in Input) (Connection, error) {
	s, err := in.resolve(ConnectionOptions())
	if err != nil {
		return Connection{}, err
	}
	return s.Connection, s.checkBroker()
}

// LoadLock returns what commands need that are about one lock, whose name may be
// missing (it is empty then): what LoadConnection returns, and the lock. Errors are
// those of Load.
func LoadLock(in Input) (Connection, lock.ID, error) {
	s, err := in.resolve(append(LockOptions(), ConnectionOptions()...))
	if err != nil {
		return Connection{}, lock.ID{}, err
	}
	return s.Connection, s.Lock, errors.Join(s.checkBroker(), s.CheckQueues(s.Lock))
}

func (s *settings) checkBroker() error {
	if s.Local && s.Lock.Kind == lock.TokenSemaphore {
		return NeedsBroker(s.Lock)
	}
	if !s.Local && len(s.Brokers) == 0 {
		return Usagef("no broker is named; give --broker URL or set BERTH_BROKER ('local' for locks on this host only)")
	}
	return nil
}

// NeedsBroker is the error for a lock that cannot be kept on one host.
func NeedsBroker(id lock.ID) error {
	return Invalidf("%s needs RabbitMQ, which hands out its tokens; on this host alone use a semaphore", id)
}

// NeedsConsumers is the error for a lock that the plain protocol cannot have.
func NeedsConsumers(id lock.ID) error {
	return Invalidf("%s has tokens, which are consumed, and --protocol plain consumes nothing; leave one of them out", id)
}

// CheckQueues refuses a type of queues that the lock cannot have.
func (c Connection) CheckQueues(id lock.ID) error {
	switch {
	case c.QueueType != QueuesQuorum || id.Name == "":
		return nil
	case c.Local:
		return Invalidf("--queue-type quorum needs RabbitMQ: a lock on this host alone has no queues; leave it out")
	case c.Protocol == ProtocolPlain:
		return Invalidf("--protocol plain and --queue-type quorum exclude each other: the plain protocol has exclusive " +
			"queues, which are on one node; leave one of them out")
	}
	return nil
}

// checkProtocol refuses what would use a protocol that is not there.
func (s *settings) checkProtocol() error {
	if s.Local || s.Protocol != ProtocolPlain {
		return nil
	}
	if s.Lock.Kind == lock.TokenSemaphore {
		return NeedsConsumers(s.Lock)
	}
	for _, option := range []struct {
		flag  string
		given bool
	}{{"priority", s.Priority > 0}, {"takeover", s.Takeover}, {"admins", len(s.Admins) > 0},
		{"lock-users", len(s.LockUsers) > 0}} {
		if option.given {
			return Invalidf("--protocol plain and --%s exclude each other: no berth is told of waiters, or can be asked; "+
				"leave one of them out", option.flag)
		}
	}
	if delay := s.Timings().Handover(); s.Timeout > 0 && s.Timeout <= delay {
		return Invalidf("--timeout %s is over before any command can start: with --protocol plain that takes the handover "+
			"delay of 2 x --heartbeat = %s, and a free slot; make --timeout longer", s.Timeout, delay)
	}
	return nil
}

// resolve merges all sources and sets the given options from them; every other
// option keeps its default.
func (in Input) resolve(options []Option) (*settings, error) {
	values, err := in.merge(options)
	if err != nil {
		return nil, err
	}
	s := &settings{}
	s.Rewrites, s.texts = signals.Rewrites{}, map[string][]string{}
	for _, option := range table {
		value, found := values[option.Name]
		if !found {
			continue
		}
		s.texts[option.Name] = value.texts
		if err := option.set(s, value.texts); err != nil {
			return nil, value.wrong(err)
		}
	}
	if err := s.CheckTLS(time.Now()); err != nil {
		return nil, Invalidf("%v", err)
	}
	s.Warnings = s.warnings(values)
	if err := s.setCredential(values); err != nil {
		return nil, err
	}
	return s, s.setRights(values)
}

func (in Input) merge(options []Option) (layer, error) {
	lookupEnv := in.LookupEnv
	if lookupEnv == nil {
		lookupEnv = func(string) (string, bool) { return "", false }
	}
	flags, err := flagLayer(in.Flags, in.Command)
	if err != nil {
		return nil, err
	}
	env, err := envLayer(options, lookupEnv)
	if err != nil {
		return nil, err
	}
	top := flags.over(env)
	file := layer{}
	if from, found := top["config"]; found {
		if file, err = readFile(from, options); err != nil {
			return nil, err
		}
	}
	merged := top.over(file.over(defaults()))
	return merged, merged.contradiction()
}

// setCredential decides whom the command runs as. Its errors are about what was
// written for --user, or for --group alone.
func (s *settings) setCredential(values layer) error {
	var err error
	if s.Credential, err = identity.Credential(s.user, s.group); err == nil {
		err = identity.Permitted(s.Credential, identity.Capable)
	}
	if err == nil {
		return nil
	}
	from, found := values["user"]
	if !found {
		from = values["group"]
	}
	return from.wrong(err)
}
