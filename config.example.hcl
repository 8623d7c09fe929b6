# Configuration of berth: berth run --config FILE
#
# The file has every key with its default, or with an example where it has none, and
# commented out. Lines that begin with "# " explain; to set a key, remove the # in front
# of it. An unknown key is an error. Variables override this file, flags override both.
#
# The file may have the broker's password: let only the user who starts berth read it
# (chmod 600; for the packages' unit: chgrp berth, chmod 640).

# ---- Which lock: one of these four ----

# A mutex has one holder at a time, and needs no setup.
#mutex = "importer"

# A semaphore has N slots; make it with: berth semaphore create workers --slots N
#semaphore = "workers"

# A mutex that you switch on and off: berth persistent-mutex enable importer
#persistent_mutex = "importer"

# A semaphore whose waiters RabbitMQ hands tokens to; make it with:
# berth token-semaphore create workers --slots N
#token_semaphore = "workers"

# ---- The broker ----

# One URL, or a list of the nodes of one cluster, which berth tries in turn. "local" or
# "local:///run/berth" is for locks on this host only, without a broker. There is no
# default. Give locks a virtual host of their own (here: locks).
#broker = ["amqp://user:password@rabbit1:5672/locks", "amqp://user:password@rabbit2:5672/locks"]

# The same from a file, such as a container's secret. berth reads it again before each
# login. Not together with broker.
#broker_file = "/etc/berth/importer.broker"

# The password alone, or an OAuth 2 token, from a file, for URLs that name only a user:
# amqp://user@rabbit1/locks. berth reads it again before each login, and gives a changed
# one to the broker on the open connection.
#password_file = "/run/secrets/rabbitmq-password"

# Who may ask this berth for its status, to step down and to reload: users of the broker,
# or with "local" of this host. Default: its own user there, and root on this host.
#admins = ["operator"]

# Other users of the broker as which berths of this lock log in. Records of users that are
# not named do not count, and delay handovers. Default: berth's own user alone.
#lock_users = ["berth-west"]

# Name, slot and letter in the names of queues, in this order: N-L-A or N-A-L. All users
# of a lock must agree on it.
#naming = "N-L-A"

# How to find out which queues exist: "confirm" publishes to them and awaits the broker's
# confirms, "tx" publishes in a transaction, "passive" declares them passively, one after
# the other; the broker logs each that it refuses as an error.
#probe = "confirm"

# What berth sends to the broker. "plain" is what other implementations of the A/B scheme
# understand: each handover takes the lease, and holders take no requests. All users of a
# lock must agree on it.
#protocol = "full"

# The queues of the lock: "classic" ones are on one node each of a cluster, "quorum" ones
# on several, and the lock survives the loss of fewer than half of these.
# Default: what the lock has, classic for a new one.
#queue_type = "quorum"

# ---- TLS and login (docs/tls.md) ----

# "plain" logs in with user and password, and is the default; "external" with the
# certificate alone, for which the broker needs a plugin.
#login = "external"

# For amqps:// URLs: the authorities that may have signed the broker's certificate
# (default: those that this host trusts), berth's own certificate and its key for a broker
# that asks for one, a name to expect in place of the URL's host, and the oldest version,
# "1.2" or "1.3". Files are in PEM, and read again for each connection.
#tls_ca = "/etc/berth/ca.pem"
#tls_cert = "/etc/berth/client.pem"
#tls_key = "/etc/berth/client.key"
#tls_server_name = "rabbit.example.com"
#tls_min_version = "1.2"

# ---- Waiting for a slot ----

# true makes one attempt. Not together with timeout.
#try = false

# Give up after this time. Default: never.
#timeout = "10m"

# Which waiter gets a slot first: 0 to 100, the highest first, equals in order of arrival.
# It needs a broker.
#priority = 0

# true takes over from the holder: this berth goes before all waiters and, once it is
# connected and prepared, asks the holder to step down. With ready_file it waits until the
# file exists, with ready_command until that script exits with 0: sh -c runs it again and
# again. berth kills a run after 30s, and what a run leaves behind.
#takeover = false
#ready_file = "/run/importer/ready"
#ready_command = "curl -fs http://127.0.0.1:8080/ready"

# After a loss, when the command is dead: "retry" waits for the next slot, "exit" exits
# with 76, as try always does.
#on_loss = "retry"

# ---- The command ----

# The program and its arguments; no shell runs. Write a literal "${" as "$${". A command
# on the command line replaces this one.
#command = ["/usr/bin/myprogram", "--flag"]

# While a proof that the slot is held is overdue: "run" lets the command run, "freeze"
# freezes it until the next proof. Either way it is dead before another holder can start.
#in_doubt = "run"

# true runs the command in a PID namespace: the kernel kills all of it even if berth and
# its guard are both killed. It needs CAP_SYS_ADMIN. The command sees only its own
# processes, and cannot read from a terminal.
#pid_namespace = false

# How to stop the command while the slot is held: signals, each with the time to wait
# after it, then KILL. A TERM, INT or QUIT to berth takes the place of the first one.
#stop = "TERM 8s, KILL"

# "first" sends these signals to the command's first process and, once that has ended, to
# what it has left; "tree" to all processes at once. KILL goes to all.
#stop_to = "first"

# When the command ends by itself: "never" gives the slot back and exits with its status;
# "on-failure" and "always" keep the slot and start it again.
#restart = "never"

# Stop the command after this time and exit with 124; with restart, start it again.
# Default: no limit.
#max_run = "6h"

# Signals to forward as others; nothing after the = drops a signal.
#rewrite = ["HUP=USR1"]

# The user and group of the command, as names or as numbers in quotes. Default: berth's.
# Others need CAP_SETUID, CAP_SETGID and CAP_KILL, as root has them. HOME, USER and LOGNAME
# are the user's, if this host knows the user. Unless the user is root, the command has no
# capabilities, and cannot type into berth's terminal.
#user = "nobody"
#group = "nogroup"

# true keeps programs with setuid, setgid or file capabilities from raising the command's
# privileges. Default: true with user and group, except for root.
#no_new_privileges = true

# Where the command runs: a directory that its user may enter. Default: where berth was
# started.
#directory = "/var/lib/myprogram"

# The command's umask, in octal and in quotes. Default: berth's.
#umask = "0027"

# Limits of the command, as in getrlimit(2): NAME=SOFT:HARD, or NAME=LIMIT for both.
# Default: berth's.
#limit = ["NOFILE=1024:65536", "CORE=0"]

# ---- Hooks ----
#
# Programs with the command's environment and BERTH_REASON. A string is split into words
# as in a shell, a list is taken as it is; no shell runs.

# Before the command starts in a slot. If it fails or times out, berth gives the slot
# back, and queues up again after a pause.
#on_acquire = ["/usr/bin/myhook", "--attach"]

# When the command is dead, before the slot is given back.
#on_release = "/usr/bin/myhook --detach"

# After a loss, when the command is dead and the slot given up.
#on_lost = "/usr/bin/myalarm"

# Kill a hook, and all that it has started, after this time.
#hook_timeout = "5s"

# ---- Health checks ----
#
# A program that runs again and again while the command runs, as a hook. After
# health_retries failures in a row berth stops the command, gives the slot back and goes
# to the end of the line. Default: no checks.
#health_command = "/usr/bin/curl -fsS http://127.0.0.1:8080/health"

# How long to wait before the first check, and after each one.
#health_interval = "30s"

# Kill a check, and all that it has started, after this time: it has failed.
#health_timeout = "30s"

# How many failures in a row make the command unhealthy.
#health_retries = 3

# Ignore failures for this time after the command's start, until a check succeeds.
# Default: ignore none.
#health_start_period = "1m"

# true runs the checks while berth waits, too: it takes no slot before one has succeeded,
# nor after so many failures in a row.
#health_while_waiting = false

# ---- Under systemd, with Type=notify ----

# When the service counts as started: with "waiting" once berth is connected and in line
# for a slot, with "holding" once its command runs.
#ready = "waiting"

# true gives the command NOTIFY_SOCKET and the watchdog: it reports that it is ready and,
# while it runs, alive. It needs NotifyAccess=all in the unit, and on_loss = "exit" without
# restart.
#pass_notify = false

# ---- Monitoring ----

# Serve a page for people at /, Prometheus metrics at /metrics, JSON at /status, and probes
# at /healthz and /readyz. Anybody who can reach the address can read it. Default: berth
# listens nowhere.
#listen = "127.0.0.1:9420"

# ---- Timings ----
#
# The lease is 2 x heartbeat: so long the broker certainly keeps the slot after it last
# heard from berth. berth refuses to start unless
#
#   verify_interval + verify_timeout + loss + 500ms <= 2 x heartbeat
#
# so that the command is dead before another holder can start. Local locks are not lost by
# time, and have no such rule.

# Whole seconds, from 1s to 60s.
#heartbeat = "5s"

# How often berth proves that it still holds the slot, and how long a proof may take. Both
# 10ms at least.
#verify_interval = "1s"
#verify_timeout = "2s"

# How to end the command when the slot is lost or in doubt.
#loss = "TERM 2s, KILL"

# ---- Log, on stderr ----

# trace, debug, info, warn or error
#log_level = "info"

# text or json
#log_format = "text"
