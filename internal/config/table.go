package config

import (
	"time"

	"berth/internal/brokerurl"
	"berth/internal/observe"
	"berth/internal/timing"
	"berth/lock"
	"berth/signals"
	"berth/supervisor"
)

// The headings of help pages.
const (
	groupLock    = "Which lock"
	groupBroker  = "The broker"
	groupTLS     = "TLS and login"
	groupWaiting = "Waiting for a slot"
	groupCommand = "The command"
	groupHooks   = "Hooks"
	groupHealth  = "Health checks"
	groupSystemd = "Under systemd"
	groupWatch   = "Monitoring"
	groupTimings = "Timings"
	groupLog     = "Log"
)

const (
	exclusiveLock    = "lock"
	exclusiveBroker  = "broker"
	exclusiveWaiting = "waiting"
)

// table lists every option, in the order in which users see them.
var table = []Option{
	{Name: "mutex", Group: groupLock, Value: "NAME", exclusive: exclusiveLock, set: setLock(lock.Mutex),
		Usage: "Hold the mutex NAME: one holder at a time, no setup."},
	{Name: "semaphore", Group: groupLock, Value: "NAME", exclusive: exclusiveLock, set: setLock(lock.Semaphore),
		Usage: "Hold a slot of the semaphore NAME, made by 'berth semaphore create'."},
	{Name: "persistent-mutex", Group: groupLock, Value: "NAME", exclusive: exclusiveLock,
		set:   setLock(lock.PersistentMutex),
		Usage: "Hold the mutex NAME, which 'berth persistent-mutex' switches on and off."},
	{Name: "token-semaphore", Group: groupLock, Value: "NAME", exclusive: exclusiveLock,
		set:   setLock(lock.TokenSemaphore),
		Usage: "Hold a slot of the token semaphore NAME, made by 'berth token-semaphore create'."},

	{Name: "broker", Group: groupBroker, Value: "URL", Kind: List, connection: true, exclusive: exclusiveBroker,
		set: setBrokers,
		Usage: "RabbitMQ at amqp://USER:PASSWORD@HOST:5672/VHOST, amqps:// for TLS; or 'local' or 'local:///DIRECTORY' " +
			"for locks on this host only. Repeatable: the nodes of one cluster, tried in turn."},
	{Name: "broker-file", Group: groupBroker, Value: "FILE", connection: true, exclusive: exclusiveBroker,
		set:   setBrokerFile,
		Usage: "Read the URLs from FILE, separated by spaces, lines or commas, and again before each login."},
	{Name: "password-file", Group: groupBroker, Value: "FILE", connection: true, set: setPasswordFile,
		Usage: "Read the password or OAuth 2 token of amqp://USER@HOST from FILE, and again before each login. A changed " +
			"one goes to the broker on the open connection, too."},
	{Name: "admins", Group: groupBroker, Value: "USER", Kind: List,
		set: setUsers(func(s *settings) *[]string { return &s.Admins }),
		Usage: "Let USER ask this berth for its status, to step down and to reload: a user of the broker, or with " +
			"'local' of this host. Repeatable. Default: berth's own, and root on this host."},
	{Name: "lock-users", Group: groupBroker, Value: "USER", Kind: List, connection: true,
		set: setUsers(func(s *settings) *[]string { return &s.LockUsers }),
		Usage: "Another user as which berths of this lock log in to the broker. Records of users that are not named do " +
			"not count, and delay handovers. Repeatable. Default: berth's own alone."},
	{Name: "config", Group: groupBroker, Value: "FILE", connection: true, flagOrEnv: true, set: setNothing,
		Usage: "Read settings from FILE. Variables and flags override it."},
	{Name: "naming", Group: groupBroker, Value: "N-L-A|N-A-L", Default: NamingNLA, connection: true,
		set:   oneOf(func(s *settings) *string { return &s.Naming }, NamingNLA, NamingNAL),
		Usage: "Name, slot and letter in queue names, in this order. All users of a lock must agree on it."},
	{Name: "probe", Group: groupBroker, Value: "confirm|tx|passive", Default: ProbeConfirm, connection: true,
		set: oneOf(func(s *settings) *string { return &s.Probe }, ProbeConfirm, ProbeTx, ProbePassive),
		Usage: "How to find out which queues exist: by confirmed messages, by messages in a transaction, or by passive " +
			"declarations, whose refusals the broker logs as errors."},
	{Name: "protocol", Group: groupBroker, Value: "full|plain", Default: ProtocolFull, connection: true,
		set: oneOf(func(s *settings) *string { return &s.Protocol }, ProtocolFull, ProtocolPlain),
		Usage: "What berth sends to the broker. plain is what other implementations of the A/B scheme understand: each " +
			"handover takes the lease, and holders take no requests. All users of a lock must agree on it."},
	{Name: "queue-type", Group: groupBroker, Value: "classic|quorum", connection: true,
		set: oneOf(func(s *settings) *string { return &s.QueueType }, QueuesClassic, QueuesQuorum),
		Usage: "The queues of the lock: classic ones are on one node each of a cluster, quorum ones on several, " +
			"and the lock survives the loss of fewer than half of these. Default: what the lock has, classic for a " +
			"new one."},

	{Name: "login", Group: groupTLS, Value: "plain|external", connection: true,
		set: completing(brokerurl.Login, LoginPlain, LoginExternal),
		Usage: "Log in with user and password (plain, the default), or with the certificate of --tls-cert (external), " +
			"for which the broker needs its plugin rabbitmq_auth_mechanism_ssl."},
	{Name: "tls-ca", Group: groupTLS, Value: "FILE", connection: true, set: completing(brokerurl.Authorities),
		Usage: "Trust only the authorities in FILE (PEM) to sign the broker's certificate. Default: those that this host " +
			"trusts."},
	{Name: "tls-cert", Group: groupTLS, Value: "FILE", connection: true, set: completing(brokerurl.Certificate),
		Usage: "Show the certificate in FILE (PEM) to a broker that asks for one. Needs --tls-key. Both are read again " +
			"for each connection."},
	{Name: "tls-key", Group: groupTLS, Value: "FILE", connection: true, set: completing(brokerurl.Key),
		Usage: "The key of --tls-cert (PEM), without a passphrase."},
	{Name: "tls-server-name", Group: groupTLS, Value: "NAME", connection: true,
		set:   completing(brokerurl.ServerName),
		Usage: "Expect NAME in the broker's certificate in place of the URL's host."},
	{Name: "tls-min-version", Group: groupTLS, Value: "1.2|1.3", connection: true,
		set:   completing(brokerurl.OldestVersion, "1.2", "1.3"),
		Usage: "Refuse older versions of TLS. Default: 1.2."},

	{Name: "try", Group: groupWaiting, Kind: Switch, exclusive: exclusiveWaiting, Default: "false",
		set:   setSwitch(func(s *settings) *bool { return &s.Try }),
		Usage: "Make one attempt; exit with 75 if no slot is free, with 69 if no broker answers."},
	{Name: "timeout", Group: groupWaiting, Value: "DURATION", Kind: Duration, exclusive: exclusiveWaiting,
		set:   setPositive(func(s *settings) *time.Duration { return &s.Timeout }, "leave it out to wait for ever"),
		Usage: "Give up after DURATION without a slot. Default: never."},
	{Name: "priority", Group: groupWaiting, Value: "NUMBER", Kind: Number, Default: "0", set: setPriority,
		Usage: "Which waiter gets a slot first: 0 to 100, the highest first, equals in order of arrival. Needs a broker."},
	{Name: "takeover", Group: groupWaiting, Kind: Switch, Default: "false",
		set: setSwitch(func(s *settings) *bool { return &s.Takeover }),
		Usage: "Take over from the holder, for a rolling deployment: go before all waiters and, once connected and " +
			"prepared, ask it to step down."},
	{Name: "ready-file", Group: groupWaiting, Value: "FILE",
		set:   setText(func(s *settings) *string { return &s.ReadyFile }),
		Usage: "With --takeover: ask the holder once FILE exists."},
	{Name: "ready-command", Group: groupWaiting, Value: "SCRIPT",
		set: setText(func(s *settings) *string { return &s.ReadyCommand }),
		Usage: "With --takeover: ask the holder once SCRIPT exits with 0. berth runs it by sh -c again and again, as it " +
			"would run the command; it kills a run after 30s, and what a run leaves behind."},
	{Name: "on-loss", Group: groupWaiting, Value: "retry|exit", Default: string(supervisor.Retry),
		set:   oneOf(func(s *settings) *supervisor.OnLoss { return &s.OnLoss }, supervisor.Retry, supervisor.NoRetry),
		Usage: "After a loss, when the command is dead, wait for the next slot, or exit with 76, as --try always does."},

	{Name: "command", Group: groupCommand, Value: "COMMAND ARG...", Kind: List, fileOnly: true, set: setCommand,
		Usage: "The program and its arguments. One on the command line follows the flags, and replaces the file's."},
	{Name: "in-doubt", Group: groupCommand, Value: "run|freeze", Default: string(supervisor.GoOn),
		set: oneOf(func(s *settings) *supervisor.OnDoubt { return &s.InDoubt }, supervisor.GoOn, supervisor.Freeze),
		Usage: "While a proof that the slot is held is overdue, let the command run, or freeze it until the next proof. " +
			"Either way it is dead before another holder can start."},
	{Name: "pid-namespace", Group: groupCommand, Kind: Switch, Default: "false",
		set: setSwitch(func(s *settings) *bool { return &s.PIDNamespace }),
		Usage: "Run the command in a PID namespace: the kernel kills all of it even if berth and its guard are both " +
			"killed. Needs CAP_SYS_ADMIN. It sees only its own processes, and cannot read from a terminal."},
	{Name: "stop", Group: groupCommand, Value: "SEQUENCE", Default: "TERM 8s, KILL",
		set: setSequence(func(s *settings) *signals.Sequence { return &s.Stop }),
		Usage: "How to stop the command while the slot is held: signals, each with the time to wait after it, then KILL. " +
			"A TERM, INT or QUIT to berth takes the place of the first; --rewrite TERM=QUIT makes it another."},
	{Name: "stop-to", Group: groupCommand, Value: "first|tree", Default: string(supervisor.StopFirst),
		set: oneOf(func(s *settings) *supervisor.StopTo { return &s.StopTo }, supervisor.StopFirst, supervisor.StopTree),
		Usage: "Send these signals to the command's first process and, once that has ended, to what it has left; or to " +
			"all processes at once. KILL goes to all."},
	{Name: "restart", Group: groupCommand, Value: "never|on-failure|always", Default: string(supervisor.Never),
		set: oneOf(func(s *settings) *supervisor.Restart { return &s.Restart },
			supervisor.Never, supervisor.OnFailure, supervisor.Always),
		Usage: "When the command ends by itself, give the slot back and exit with its status; or keep the slot and start " +
			"it again, after a failure or always."},
	{Name: "max-run", Group: groupCommand, Value: "DURATION", Kind: Duration,
		set:   setPositive(func(s *settings) *time.Duration { return &s.MaxRun }, "leave it out to let the command run for ever"),
		Usage: "Stop the command after DURATION and exit with 124; with --restart, start it again."},
	{Name: "rewrite", Group: groupCommand, Value: "SIGNAL=SIGNAL", Kind: List, set: setRewrites,
		Usage: "Forward one signal as another, such as HUP=USR1, or drop it: HUP=. Repeatable."},
	{Name: "user", Group: groupCommand, Value: "USER", set: setUser,
		Usage: "Run the command as USER, a name or number, with that user's groups, HOME, USER and LOGNAME, and unless " +
			"it is root without capabilities. Needs CAP_SETUID, CAP_SETGID and CAP_KILL."},
	{Name: "group", Group: groupCommand, Value: "GROUP", set: setGroup,
		Usage: "Run the command with GROUP, a name or number, as its main group. Needs CAP_SETGID."},
	{Name: "no-new-privileges", Group: groupCommand, Kind: Switch, set: setNoNewPrivileges,
		Usage: "Keep sudo, su, Postfix's sendmail and other programs with setuid, setgid or file capabilities from " +
			"raising the command's privileges. Default: true with --user and --group, except for root."},
	{Name: "directory", Group: groupCommand, Value: "DIRECTORY", set: setDirectory,
		Usage: "Run the command in DIRECTORY, which its user must be able to enter. Default: where berth was started. " +
			"Other paths stay relative to that."},
	{Name: "umask", Group: groupCommand, Value: "MASK", set: setUmask,
		Usage: "The command's umask in octal, such as 0027. Default: berth's."},
	{Name: "limit", Group: groupCommand, Value: "NAME=SOFT:HARD", Kind: List, set: setLimits,
		Usage: "Limit a resource of the command, as in getrlimit(2): NOFILE=1024:65536, or NAME=LIMIT for both; a limit " +
			"can be unlimited. Repeatable. Needs CAP_SYS_RESOURCE above berth's own hard limit."},

	{Name: "on-acquire", Group: groupHooks, Value: "COMMAND", Kind: CommandLine,
		set: setHook(supervisor.OnAcquire),
		Usage: "Run COMMAND in the slot before the command starts. If it fails or times out, berth gives the slot back, " +
			"and queues up again after a pause. Words are split as in a shell; no shell runs."},
	{Name: "on-release", Group: groupHooks, Value: "COMMAND", Kind: CommandLine,
		set: setHook(supervisor.OnRelease),
		Usage: "Run COMMAND when the command is dead, before the slot is given back, unless the slot was lost. Its exit " +
			"status changes nothing."},
	{Name: "on-lost", Group: groupHooks, Value: "COMMAND", Kind: CommandLine,
		set: setHook(supervisor.OnLost),
		Usage: "Run COMMAND after a loss, when the command is dead and the slot given up. Another holder may have it by " +
			"then."},
	{Name: "hook-timeout", Group: groupHooks, Value: "DURATION", Kind: Duration, Default: "5s",
		set: setPositive(func(s *settings) *time.Duration { return &s.HookTimeout },
			"write a duration such as 5s"),
		Usage: "Kill a hook, and all that it has started, after DURATION."},

	{Name: "health-command", Group: groupHealth, Value: "COMMAND", Kind: CommandLine, set: setHealthCommand,
		Usage: "Run COMMAND, as a hook, again and again while the command runs. After --health-retries failures in a row " +
			"berth stops the command, gives the slot back and goes to the end of the line; with --on-loss exit or " +
			"--try it exits with 124. With --restart, a command that was healthy before starts again in its slot."},
	{Name: "health-interval", Group: groupHealth, Value: "DURATION", Kind: Duration, Default: "30s",
		set:   setPositive(func(s *settings) *time.Duration { return &s.Health.Interval }, "30s is the default"),
		Usage: "How long to wait before the first check, and after each one."},
	{Name: "health-timeout", Group: groupHealth, Value: "DURATION", Kind: Duration, Default: "30s",
		set:   setPositive(func(s *settings) *time.Duration { return &s.Health.Timeout }, "30s is the default"),
		Usage: "Kill a check, and all that it has started, after DURATION: it has failed."},
	{Name: "health-retries", Group: groupHealth, Value: "NUMBER", Kind: Number, Default: "3", set: setHealthRetries,
		Usage: "How many failures in a row make the command unhealthy."},
	{Name: "health-start-period", Group: groupHealth, Value: "DURATION", Kind: Duration,
		set:   setPositive(func(s *settings) *time.Duration { return &s.Health.StartPeriod }, "leave it out to have none"),
		Usage: "Ignore failures for DURATION after the command's start, until a check succeeds."},
	{Name: "health-while-waiting", Group: groupHealth, Kind: Switch, Default: "false",
		set: setSwitch(func(s *settings) *bool { return &s.Health.WhileWaiting }),
		Usage: "Run the checks while berth waits, too. It takes no slot, and asks no holder to step down, before a check " +
			"has succeeded, nor after so many failures in a row."},

	{Name: "ready", Group: groupSystemd, Value: "waiting|holding", Default: string(observe.Waiting),
		set: oneOf(func(s *settings) *observe.Ready { return &s.Ready }, observe.Waiting, observe.Holding),
		Usage: "When a service with Type=notify counts as started: once berth is connected and in line for a slot, or " +
			"once its command runs. In line, berth extends systemd's timeout for the start."},
	{Name: "pass-notify", Group: groupSystemd, Kind: Switch, Default: "false",
		set: setSwitch(func(s *settings) *bool { return &s.PassNotify }),
		Usage: "Give the command NOTIFY_SOCKET and the watchdog: it reports within 5 min that it is ready and, while it " +
			"runs, that it is alive. Needs NotifyAccess=all in the unit, --on-loss exit, and no --restart."},

	{Name: "listen", Group: groupWatch, Value: "ADDRESS:PORT", set: setListen,
		Usage: "Serve a page for people at /, Prometheus metrics at /metrics, JSON at /status, and probes at /healthz " +
			"and /readyz, which follows --ready. Anybody who can reach the address can read it."},

	{Name: "heartbeat", Group: groupTimings, Value: "DURATION", Kind: Duration, Default: "5s", set: setHeartbeat,
		Usage: "The connection's heartbeat, whole seconds from 1s to 60s. Twice that is the lease: so long the broker " +
			"certainly keeps a slot after it last heard from berth."},
	{Name: "verify-interval", Group: groupTimings, Value: "DURATION", Kind: Duration, Default: "1s",
		set: setVerification(func(s *settings) *time.Duration { return &s.VerifyInterval }),
		Usage: "How often berth proves that it still holds the slot, " + timing.MinVerification.String() +
			" at least."},
	{Name: "verify-timeout", Group: groupTimings, Value: "DURATION", Kind: Duration, Default: "2s",
		set: setVerification(func(s *settings) *time.Duration { return &s.VerifyTimeout }),
		Usage: "How long such a proof may take, " + timing.MinVerification.String() +
			" at least."},
	{Name: "loss", Group: groupTimings, Value: "SEQUENCE", Default: "TERM 2s, KILL",
		set: setSequence(func(s *settings) *signals.Sequence { return &s.Loss }),
		Usage: "How to end the command when the slot is lost or in doubt. Must fit into the lease, with interval, " +
			"timeout and a margin of " + timing.Margin.String() + "."},

	{Name: "log-level", Group: groupLog, Value: "trace|debug|info|warn|error", Default: "info", connection: true,
		set:   oneOf(func(s *settings) *string { return &s.LogLevel }, "trace", "debug", "info", "warn", "error"),
		Usage: "The least important messages to log, on stderr."},
	{Name: "log-format", Group: groupLog, Value: "text|json", Default: "text", connection: true,
		set:   oneOf(func(s *settings) *string { return &s.LogFormat }, "text", "json"),
		Usage: "Log lines for people, or one JSON object per line."},
}
