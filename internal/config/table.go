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
	groupBroker  = "Where it lives"
	groupWaiting = "Waiting for a slot"
	groupCommand = "The command"
	groupHooks   = "Hooks"
	groupHealth  = "Health checks"
	groupSystemd = "As a service of systemd"
	groupWatch   = "Watching it"
	groupTimings = "Timings that the promise rests on"
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
		Usage: "Hold the mutex NAME: one holder at a time, nothing to set up."},
	{Name: "semaphore", Group: groupLock, Value: "NAME", exclusive: exclusiveLock, set: setLock(lock.Semaphore),
		Usage: "Hold one slot of the semaphore NAME, made with 'berth semaphore create'."},
	{Name: "persistent-mutex", Group: groupLock, Value: "NAME", exclusive: exclusiveLock,
		set:   setLock(lock.PersistentMutex),
		Usage: "Hold the mutex NAME that is switched on and off with 'berth persistent-mutex enable' and 'disable'."},
	{Name: "token-semaphore", Group: groupLock, Value: "NAME", exclusive: exclusiveLock,
		set: setLock(lock.TokenSemaphore),
		Usage: "Hold one slot of the token semaphore NAME, made with 'berth token-semaphore create': a semaphore whose " +
			"waiters are handed tokens by RabbitMQ."},

	{Name: "broker", Group: groupBroker, Value: "URL", Kind: List, connection: true, exclusive: exclusiveBroker,
		set: setBrokers,
		Usage: "RabbitMQ at amqp://USER:PASSWORD@HOST:5672/VHOST, or amqps:// for TLS; or 'local' or " +
			"'local:///DIRECTORY' for locks that hold on this host only. Repeat it for the nodes of one " +
			"cluster, which are tried in turn. In the variable, URLs are separated by spaces or commas."},
	{Name: "broker-file", Group: groupBroker, Value: "FILE", connection: true, exclusive: exclusiveBroker,
		set: setBrokerFile,
		Usage: "Read the URLs from FILE, such as a container's secret; separated as in the variable of --broker. It is " +
			"read again before each login, so that a password can be changed there while berth runs."},
	{Name: "password-file", Group: groupBroker, Value: "FILE", connection: true, set: setPasswordFile,
		Usage: "Read the password, or a token of OAuth 2, from FILE, for URLs that name a user and none: " +
			"amqp://USER@HOST. It is read again before each login, and given to the broker anew when it changes."},
	{Name: "login", Group: groupBroker, Value: "plain|external", connection: true,
		set: completing(brokerurl.Login, LoginPlain, LoginExternal),
		Usage: "How berth logs in: with user and password, as is the default, or with its certificate alone " +
			"(EXTERNAL), for which --tls-cert is needed and the broker's plugin rabbitmq_auth_mechanism_ssl."},
	{Name: "tls-ca", Group: groupBroker, Value: "FILE", connection: true, set: completing(brokerurl.Authorities),
		Usage: "Trust the authorities whose certificates are in FILE, in PEM, and no others, to sign the broker's " +
			"certificate. Left out, those that this host trusts. This and the other --tls flags complete each " +
			"amqps:// URL."},
	{Name: "tls-cert", Group: groupBroker, Value: "FILE", connection: true, set: completing(brokerurl.Certificate),
		Usage: "Show the certificate in FILE, in PEM, to a broker that asks for one. It is read for each connection: " +
			"one that is replaced is used by the next. Needs --tls-key."},
	{Name: "tls-key", Group: groupBroker, Value: "FILE", connection: true, set: completing(brokerurl.Key),
		Usage: "The key of --tls-cert, in PEM, without a passphrase."},
	{Name: "tls-server-name", Group: groupBroker, Value: "NAME", connection: true,
		set:   completing(brokerurl.ServerName),
		Usage: "Expect NAME in the broker's certificate in place of the host in the URL, and ask for it."},
	{Name: "tls-min-version", Group: groupBroker, Value: "1.2|1.3", connection: true,
		set:   completing(brokerurl.OldestVersion, "1.2", "1.3"),
		Usage: "Refuse a broker with an older version of TLS. Left out, it is 1.2."},
	{Name: "admins", Group: groupBroker, Value: "USER", Kind: List, set: setAdmins,
		Usage: "Who may ask this berth for its status, to step down and to reload: users of the broker, or of this " +
			"host with 'local'. Repeat it for each: a comma is part of a name. Left out, it is berth's own user " +
			"there, and root on this host. In the variable, separated by spaces or commas."},
	{Name: "lock-users", Group: groupBroker, Value: "USER", Kind: List, connection: true, set: setLockUsers,
		Usage: "Which other users of the broker this lock's berths log in as. What they write into its ledger counts; what " +
			"a stranger writes has every waiter wait as for an unknown holder. Repeat it for each: a comma is part " +
			"of a name. Left out, it is berth's own user alone. In the variable, separated by spaces or commas."},
	{Name: "config", Group: groupBroker, Value: "FILE", connection: true, flagOrEnv: true, set: setNothing,
		Usage: "Read settings from FILE. The environment overrides the file, flags override both."},
	{Name: "naming", Group: groupBroker, Value: "N-L-A|N-A-L", Default: NamingNLA, connection: true,
		set: oneOf(func(s *settings) *string { return &s.Naming }, NamingNLA, NamingNAL),
		Usage: "How queues are named: name, slot and letter in this order. Every berth that uses a lock must " +
			"agree on it."},
	{Name: "probe", Group: groupBroker, Value: "confirm|tx|passive", Default: ProbeConfirm, connection: true,
		set: oneOf(func(s *settings) *string { return &s.Probe }, ProbeConfirm, ProbeTx, ProbePassive),
		Usage: "How berth finds out which queues exist: by messages that the broker confirms, by messages in a " +
			"transaction, or by passive declarations, of which the broker logs those that it refuses as errors."},
	{Name: "protocol", Group: groupBroker, Value: "full|plain", Default: ProtocolFull, connection: true,
		set: oneOf(func(s *settings) *string { return &s.Protocol }, ProtocolFull, ProtocolPlain),
		Usage: "What berth sends to the broker. With plain, only what other implementations of the A/B scheme send too: " +
			"nothing is consumed, so every handover takes the lease, and no berth can be asked anything. All users of " +
			"a lock must agree on it."},
	{Name: "queue-type", Group: groupBroker, Value: "classic|quorum", connection: true,
		set: oneOf(func(s *settings) *string { return &s.QueueType }, QueuesClassic, QueuesQuorum),
		Usage: "Which queues a token semaphore has: classic ones are on one node each of a cluster, quorum ones on " +
			"several, and the lock survives the loss of fewer than half of these. Left out, those that the lock has; one " +
			"that is created has classic ones. Other locks have no choice."},

	{Name: "try", Group: groupWaiting, Kind: Switch, exclusive: exclusiveWaiting, Default: "false",
		set:   setSwitch(func(s *settings) *bool { return &s.Try }),
		Usage: "Make one attempt; exit with 75 if no slot is free, with 69 if no broker can be reached."},
	{Name: "timeout", Group: groupWaiting, Value: "DURATION", Kind: Duration, exclusive: exclusiveWaiting,
		set:   setPositive(func(s *settings) *time.Duration { return &s.Timeout }, "leave it out to wait for ever"),
		Usage: "Give up after DURATION without a slot. Left out, berth waits for ever."},
	{Name: "priority", Group: groupWaiting, Value: "NUMBER", Kind: Number, Default: "0", set: setPriority,
		Usage: "Which waiter gets a slot first: 0 to 100, the highest first, and those of equal priority in the " +
			"order in which they came. It needs a broker. A newcomer lets waiters go first."},
	{Name: "takeover", Group: groupWaiting, Kind: Switch, Default: "false",
		set: setSwitch(func(s *settings) *bool { return &s.Takeover }),
		Usage: "Take over from the berth that holds the slot: go before all waiters and, once this one is connected " +
			"and prepared, ask the holder to end its command by the stop sequence and to give the slot back. For rolling " +
			"deployments."},
	{Name: "ready-file", Group: groupWaiting, Value: "FILE",
		set:   setText(func(s *settings) *string { return &s.ReadyFile }),
		Usage: "With --takeover: ask the holder once FILE exists."},
	{Name: "ready-command", Group: groupWaiting, Value: "SCRIPT",
		set: setText(func(s *settings) *string { return &s.ReadyCommand }),
		Usage: "With --takeover: ask the holder once SCRIPT, run by sh -c again and again, ends with status 0. It " +
			"runs as the command would. What it leaves running is killed, and all of it after 30s."},
	{Name: "on-loss", Group: groupWaiting, Value: "retry|exit", Default: string(supervisor.Retry),
		set: oneOf(func(s *settings) *supervisor.OnLoss { return &s.OnLoss }, supervisor.Retry, supervisor.Exit),
		Usage: "After a slot was lost and the command is dead: queue up for the next slot, or exit with 76, as with " +
			"--try, which makes one attempt."},

	{Name: "command", Group: groupCommand, Value: "COMMAND ARG...", Kind: List, fileOnly: true, set: setCommand,
		Usage: "The program to run and its arguments. On the command line it follows the flags and replaces the " +
			"file's."},
	{Name: "in-doubt", Group: groupCommand, Value: "run|freeze", Default: string(supervisor.GoOn),
		set: oneOf(func(s *settings) *supervisor.OnDoubt { return &s.InDoubt }, supervisor.GoOn, supervisor.Freeze),
		Usage: "While a proof that the slot is held is overdue: let the command run on, or stop all of it " +
			"until the next proof. Either way it is ended before another berth can have the slot."},
	{Name: "pid-namespace", Group: groupCommand, Kind: Switch, Default: "false",
		set: setSwitch(func(s *settings) *bool { return &s.PIDNamespace }),
		Usage: "Run the command in a PID namespace of its own, so that the kernel kills all of it even if " +
			"berth and its guard are both killed. Needs CAP_SYS_ADMIN. The command sees only " +
			"its own processes, and cannot read from a terminal."},
	{Name: "stop", Group: groupCommand, Value: "SEQUENCE", Default: "TERM 8s, KILL",
		set: setSequence(func(s *settings) *signals.Sequence { return &s.Stop }),
		Usage: "How the command is ended while the slot is still held: signals, each with the time to wait " +
			"after it, and KILL. A TERM, INT or QUIT to berth takes the place of the first signal; --rewrite " +
			"TERM=QUIT makes it another."},
	{Name: "stop-to", Group: groupCommand, Value: "first|tree", Default: string(supervisor.StopFirst),
		set: oneOf(func(s *settings) *supervisor.StopTo { return &s.StopTo }, supervisor.StopFirst, supervisor.StopTree),
		Usage: "Which processes these signals are for: the command's first, and once that has ended whatever it has " +
			"left; or every process at once. KILL is for all."},
	{Name: "restart", Group: groupCommand, Value: "never|on-failure|always", Default: string(supervisor.Never),
		set: oneOf(func(s *settings) *supervisor.Restart { return &s.Restart },
			supervisor.Never, supervisor.OnFailure, supervisor.Always),
		Usage: "When the command ends by itself: with never, give the slot back and exit as the command did; " +
			"otherwise keep the slot and start it again."},
	{Name: "max-run", Group: groupCommand, Value: "DURATION", Kind: Duration,
		set: setPositive(func(s *settings) *time.Duration { return &s.MaxRun }, "leave it out to let the command run for ever"),
		Usage: "End the command by the stop sequence when it has run for DURATION, and exit with 124; with --restart, " +
			"start it again. Left out, it may run for ever."},
	{Name: "rewrite", Group: groupCommand, Value: "SIGNAL=SIGNAL", Kind: List, set: setRewrites,
		Usage: "Hand one signal on as another, such as HUP=USR1, or drop it: HUP=. Repeatable. In the variable, " +
			"separated by spaces or commas."},
	{Name: "user", Group: groupCommand, Value: "USER", set: setUser,
		Usage: "Run the command as this user, a name or a number, with the user's groups; HOME, USER and " +
			"LOGNAME are the user's, if this host knows the user. It has no capabilities, unless it is root's. Needs " +
			"CAP_SETUID, CAP_SETGID and CAP_KILL, as root has them."},
	{Name: "group", Group: groupCommand, Value: "GROUP", set: setGroup,
		Usage: "Run the command with this group, a name or a number, in place of the user's main one. Needs " +
			"CAP_SETGID."},
	{Name: "no-new-privileges", Group: groupCommand, Kind: Switch, set: setNoNewPrivileges,
		Usage: "Keep programs that are setuid or setgid, or have capabilities in their file, such as sudo, su and " +
			"Postfix's sendmail, from giving the command privileges. Left out, it is true with --user and --group, for " +
			"any user but root."},
	{Name: "directory", Group: groupCommand, Value: "DIRECTORY", set: setDirectory,
		Usage: "Run the command in DIRECTORY, which its user enters. Other files that berth is told stay relative to " +
			"where berth was started, which is the default. One that is missing ends berth with 78, one that the user " +
			"may not enter the start with 126."},
	{Name: "umask", Group: groupCommand, Value: "MASK", set: setUmask,
		Usage: "The command's file mode creation mask in octal, such as 0027. Left out, it is berth's."},
	{Name: "limit", Group: groupCommand, Value: "NAME=SOFT:HARD", Kind: List, set: setLimits,
		Usage: "A limit of the command on a resource, named and counted as in getrlimit(2), such as NOFILE=1024:65536; " +
			"NAME=LIMIT is both, and unlimited is a limit too. It is for each process by itself; but NPROC counts all " +
			"processes of the user. Repeatable. In the variable, separated by spaces or commas. To go above berth's " +
			"hard limit needs CAP_SYS_RESOURCE."},

	{Name: "on-acquire", Group: groupHooks, Value: "COMMAND", Kind: CommandLine,
		set: setHook(supervisor.OnAcquire),
		Usage: "Run COMMAND in the slot before the command is started there. If it fails or takes too long, the slot " +
			"is given back, and berth queues up again after a pause. Words are split as a shell does; no shell runs."},
	{Name: "on-release", Group: groupHooks, Value: "COMMAND", Kind: CommandLine,
		set: setHook(supervisor.OnRelease),
		Usage: "Run COMMAND when the command is dead and before the slot is given back, unless the slot was lost. " +
			"How it ends changes nothing."},
	{Name: "on-lost", Group: groupHooks, Value: "COMMAND", Kind: CommandLine,
		set: setHook(supervisor.OnLost),
		Usage: "Run COMMAND after the slot was lost, the command is dead and the slot is given up. Another " +
			"berth may have the slot by then."},
	{Name: "hook-timeout", Group: groupHooks, Value: "DURATION", Kind: Duration, Default: "5s", set: setHookTimeout,
		Usage: "Kill a hook, and all that it has started, after DURATION."},

	{Name: "health-command", Group: groupHealth, Value: "COMMAND", Kind: CommandLine, set: setHealthCommand,
		Usage: "Run COMMAND again and again while the command runs. When it has failed so often in a row, the command is " +
			"ended by the stop sequence, the slot is given back, and berth goes to the end of the line; with --on-loss exit " +
			"or --try it exits with 124. With --restart, a command that was healthy before is started again in its slot. " +
			"COMMAND runs as a hook does."},
	{Name: "health-interval", Group: groupHealth, Value: "DURATION", Kind: Duration, Default: "30s",
		set:   setPositive(func(s *settings) *time.Duration { return &s.Health.Interval }, "30s is the default"),
		Usage: "How long to wait before the first check, and from the end of one to the next."},
	{Name: "health-timeout", Group: groupHealth, Value: "DURATION", Kind: Duration, Default: "30s",
		set:   setPositive(func(s *settings) *time.Duration { return &s.Health.Timeout }, "30s is the default"),
		Usage: "Kill a check, and all that it has started, after DURATION. It has failed then."},
	{Name: "health-retries", Group: groupHealth, Value: "NUMBER", Kind: Number, Default: "3", set: setHealthRetries,
		Usage: "After how many failed checks in a row the command is unhealthy."},
	{Name: "health-start-period", Group: groupHealth, Value: "DURATION", Kind: Duration,
		set: setPositive(func(s *settings) *time.Duration { return &s.Health.StartPeriod }, "leave it out to have none"),
		Usage: "For how long after the command's start failed checks do not count, unless one has succeeded before. Left " +
			"out, each counts."},
	{Name: "health-while-waiting", Group: groupHealth, Kind: Switch, Default: "false",
		set: setSwitch(func(s *settings) *bool { return &s.Health.WhileWaiting }),
		Usage: "Run the checks while berth waits, too. It takes no slot, and asks no holder to step down, before one has " +
			"succeeded, or once so many in a row have failed."},

	{Name: "ready", Group: groupSystemd, Value: "waiting|holding", Default: string(observe.Waiting),
		set: oneOf(func(s *settings) *observe.Ready { return &s.Ready }, observe.Waiting, observe.Holding),
		Usage: "When a service with Type=notify counts as started: when berth is connected and in line for a " +
			"slot, or when its command runs. In line, systemd's timeout for the start is extended."},
	{Name: "pass-notify", Group: groupSystemd, Kind: Switch, Default: "false",
		set: setSwitch(func(s *settings) *bool { return &s.PassNotify }),
		Usage: "Give the command NOTIFY_SOCKET and the watchdog: it reports by itself that it is ready, and while " +
			"it runs that it is there. It has to be ready within 5 min. Needs NotifyAccess=all in the unit, --on-loss " +
			"exit, and no --restart."},

	{Name: "listen", Group: groupWatch, Value: "ADDRESS:PORT", set: setListen,
		Usage: "Serve a page for people at /, Prometheus' metrics at /metrics, JSON at /status, and probes at " +
			"/healthz and /readyz, which follows --ready: for example on 127.0.0.1:9420. On an address that other " +
			"hosts can reach, they can read it."},

	{Name: "heartbeat", Group: groupTimings, Value: "DURATION", Kind: Duration, Default: "5s", set: setHeartbeat,
		Usage: "Heartbeat of the connection, whole seconds from 1s to 60s. A slot is certainly kept for twice " +
			"that after the broker last heard from berth: the lease."},
	{Name: "verify-interval", Group: groupTimings, Value: "DURATION", Kind: Duration, Default: "1s",
		set: setVerification(func(s *settings) *time.Duration { return &s.VerifyInterval }),
		Usage: "How often berth proves that it still holds the slot, " + timing.MinVerification.String() +
			" at least."},
	{Name: "verify-timeout", Group: groupTimings, Value: "DURATION", Kind: Duration, Default: "2s",
		set:   setVerification(func(s *settings) *time.Duration { return &s.VerifyTimeout }),
		Usage: "How long one such proof may take, " + timing.MinVerification.String() + " at least."},
	{Name: "loss", Group: groupTimings, Value: "SEQUENCE", Default: "TERM 2s, KILL",
		set: setSequence(func(s *settings) *signals.Sequence { return &s.Loss }),
		Usage: "How the command is ended when the slot is lost or in doubt. It must fit into the lease, together " +
			"with " +
			"interval, timeout and a margin of " + timing.Margin.String() + "."},

	{Name: "log-level", Group: groupLog, Value: "trace|debug|info|warn|error", Default: "info", connection: true,
		set:   oneOf(func(s *settings) *string { return &s.LogLevel }, "trace", "debug", "info", "warn", "error"),
		Usage: "The least important messages to log, on stderr."},
	{Name: "log-format", Group: groupLog, Value: "text|json", Default: "text", connection: true,
		set:   oneOf(func(s *settings) *string { return &s.LogFormat }, "text", "json"),
		Usage: "Log lines for people, or one JSON object per line."},
}
