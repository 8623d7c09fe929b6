// Package config turns a configuration file, the environment and the command
// line into one checked value:
//
//	run, err := config.Load(config.Input{Flags: flags, Command: args, LookupEnv: os.LookupEnv})
//
// One table (table.go) lists every option, with how it is checked and what the
// documentation says of it; its flag, its environment variable and its key in the
// file are derived from its name. Precedence: defaults, then the file, then the
// environment, then flags. The package does not reach for a broker: a checked
// configuration may still name one that is not there. What a broker's URL, a user or
// safe timings are, packages of their own know.
package config

import (
	"syscall"
	"time"

	"berth/internal/brokerurl"
	"berth/internal/guard/rights"
	"berth/internal/identity"
	"berth/internal/observe"
	"berth/internal/timing"
	"berth/lock"
	"berth/signals"
	"berth/supervisor"
)

// Connection says where locks live and how berth talks about it. Every
// subcommand needs it.
type Connection struct {
	// Place is where locks live. It has brokers if and only if it is not local.
	brokerurl.Place

	// Naming is how queues are named: NamingNLA (default) or NamingNAL.
	Naming string

	// Probe is how existing queues are looked for: ProbeConfirm (default), ProbeTx or ProbePassive.
	Probe string

	// Protocol is which parts of AMQP locks use: ProtocolFull (default) or ProtocolPlain.
	Protocol string

	// QueueType is which queues the lock has: QueuesClassic or QueuesQuorum. Empty (default): whichever it has.
	QueueType string

	// LockUsers are other users of the broker whose records count. Nil (default): none.
	LockUsers []string

	// Heartbeat is the heartbeat asked of the broker: whole seconds, 1s to
	// 60s, default 5s. The lease is twice that.
	Heartbeat time.Duration

	// LogLevel is trace, debug, info (default), warn or error.
	LogLevel string

	// LogFormat is text (default) or json.
	LogFormat string
}

// The ways to log in, which a URL in Connection.Brokers may say; LoginPlain if it does not.
const (
	LoginPlain    = "plain"    // with user and password
	LoginExternal = "external" // with a certificate
)

// The values of Connection.Naming.
const (
	NamingNLA = "N-L-A" // queues named like workers-1-A
	NamingNAL = "N-A-L" // queues named like workers-A-1
)

// The values of Connection.Probe.
const (
	ProbeConfirm = "confirm" // by a publish that the broker confirms
	ProbeTx      = "tx"      // by a publish in a transaction
	ProbePassive = "passive" // by a passive declaration
)

// The values of Connection.Protocol.
const (
	ProtocolFull  = "full"  // with ledgers and a line
	ProtocolPlain = "plain" // with nothing that is consumed
)

// The values of Connection.QueueType.
const (
	QueuesClassic = "classic" // on one node of a cluster
	QueuesQuorum  = "quorum"  // on several
)

// Run is everything that `berth run` was told, checked. Load makes it; the zero
// value is not usable.
type Run struct {
	Connection

	// Lock is the lock to hold; its name has passed lock.CheckName.
	Lock lock.ID

	// Command is the program and its arguments, at least the program.
	Command []string

	// VerifyInterval is the time from one verification to the next,
	// timing.MinVerification at least, default 1s.
	VerifyInterval time.Duration

	// VerifyTimeout is how long one verification may take,
	// timing.MinVerification at least, default 2s.
	VerifyTimeout time.Duration

	// Stop is the sequence for an orderly end, default "TERM 8s, KILL".
	Stop signals.Sequence

	// StopTo is whom that sequence is for, default supervisor.StopFirst.
	StopTo supervisor.StopTo

	// Loss is the sequence for a slot that is lost or in doubt, default
	// "TERM 2s, KILL".
	Loss signals.Sequence

	// Rewrites says which signals are handed on as others; never nil, default
	// empty.
	Rewrites signals.Rewrites

	// Try asks for one attempt only. Never set together with Timeout.
	Try bool

	// Timeout is how long to wait for a slot; zero (default) means for ever.
	Timeout time.Duration

	// Priority is this process's among the waiters: 0 (default) to
	// lock.MaxPriority, the highest first. Zero if Local is set.
	Priority int

	// Admins are the users who may ask this berth for something. Nil (default): its own.
	Admins []string

	// Takeover asks the holder to step down once this berth is prepared, default false.
	// Never set together with Try.
	Takeover bool

	// ReadyFile exists, and ReadyCommand (for sh -c) ends with status 0, once the holder
	// may be asked. Empty (default): at once. Never set without Takeover.
	ReadyFile, ReadyCommand string

	// OnLoss is what to do after a loss, default supervisor.Retry.
	OnLoss supervisor.OnLoss

	// InDoubt is what to do with the command while verification is overdue,
	// default supervisor.GoOn.
	InDoubt supervisor.OnDoubt

	// PIDNamespace runs the command in a PID namespace of its own, default
	// false.
	PIDNamespace bool

	// Restart is what to do when the command ends, default
	// supervisor.Never.
	Restart supervisor.Restart

	// Hooks are the hooks that there are, programs and their arguments, default nil.
	Hooks map[supervisor.Hook][]string

	// HookTimeout is after which time a hook is killed, default 5s.
	HookTimeout time.Duration

	// MaxRun is after which time the command is ended. Zero (default) means never.
	MaxRun time.Duration

	// Health is how the command is judged while it runs.
	Health Health

	// Ready is when a service of systemd counts as started, default
	// observe.Waiting.
	Ready observe.Ready

	// PassNotify hands systemd's notifications over to the command, default false.
	PassNotify bool

	// Version is that of the program, for others to see. Load leaves it alone.
	Version string

	// Listen is the address and port at which berth says how it is, "" (default): nowhere.
	Listen string

	// Credential is whom the command runs as. Nil (default, and when user and
	// group are berth's own) means as berth itself.
	Credential *syscall.Credential

	// Account is the entry that the user database has for --user. Nil (default)
	// if none was given, or if there is no entry.
	Account *identity.Account

	// Rights are what the command may do beside what its user may, and its limits.
	Rights rights.Rights

	// WorkingDirectory is the command's, absolute. Empty (default): that in which berth was
	// started.
	WorkingDirectory string

	// Warnings say what could be better about how the broker's password is given, a sentence each.
	Warnings []string

	texts map[string][]string // what was given for each option, by its name; for Reload
}

// Health is what --health-command and its like say.
type Health struct {
	Command      []string      // the program and its arguments; nil (default): there are no checks
	Interval     time.Duration // above zero, default 30s
	Timeout      time.Duration // above zero, default 30s
	Retries      int           // 1 or more, default 3
	StartPeriod  time.Duration // zero (default) or more
	WhileWaiting bool          // never set without Command
}

// Noticed returns how long it takes at most until a command that hangs is unhealthy. A check that has asked it before may
// still be under way, and succeeds.
func (h Health) Noticed() time.Duration {
	return h.Timeout + time.Duration(h.Retries)*(h.Interval+h.Timeout)
}

// Timings returns the part of the configuration that the promise rests on.
func (r Run) Timings() timing.Timings {
	return timing.Timings{
		Heartbeat:      r.Heartbeat,
		VerifyInterval: r.VerifyInterval,
		VerifyTimeout:  r.VerifyTimeout,
		Loss:           r.Loss.Duration(),
		Plain:          !r.Local && r.Protocol == ProtocolPlain,
	}
}

// HookTimes returns how long the hooks may take.
func (r Run) HookTimes() timing.Hooks {
	most := func(hook supervisor.Hook) time.Duration {
		if r.Hooks[hook] == nil {
			return 0
		}
		return r.HookTimeout
	}
	return timing.Hooks{OnAcquire: most(supervisor.OnAcquire), OnRelease: most(supervisor.OnRelease),
		OnLost: most(supervisor.OnLost)}
}
