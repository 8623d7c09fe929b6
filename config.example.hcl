# Configuration of berth: berth run --config FILE
#
# Every key is shown with its default, or with an example where it has none, and
# commented out. Lines that begin with "# " explain, lines that begin with "#"
# and a key are settings to uncomment. A key that berth does not know is an
# error. Environment variables override this file, flags override both.
#
# The file may hold the broker's password: let only the user who starts berth
# read it (chmod 600; for the packages' unit: chgrp berth, chmod 640).

# ---- Which lock: exactly one of these four ----

# A mutex has one holder at a time and needs nothing to be set up.
#mutex = "importer"

# A semaphore has N slots; make it with: berth semaphore create workers --slots N
#semaphore = "workers"

# A mutex that is switched on and off with: berth persistent-mutex enable importer
#persistent_mutex = "importer"

# A semaphore whose waiters are handed tokens by RabbitMQ, which has a queue of them;
# make it with: berth token-semaphore create workers --slots N
#token_semaphore = "workers"

# ---- Where it lives ----

# One URL, or a list of the nodes of one cluster, which are tried in turn.
# "local" or "local:///run/berth" means locks that hold on this host only, with no
# broker. There is no default. Give locks a virtual host of their own (here: locks).
#broker = ["amqp://user:password@rabbit1:5672/locks", "amqp://user:password@rabbit2:5672/locks"]

# The same from a file, such as a container's secret, which is read again before each
# login. Not together with broker.
#broker_file = "/etc/berth/importer.broker"

# The password alone, or a token of OAuth 2, from a file, for URLs that name a user and
# none: amqp://user@rabbit1/locks. It is read again before each login, and a berth that is
# connected gives it to the broker anew when it changes.
#password_file = "/run/secrets/rabbitmq-password"

# How berth logs in: "plain" with user and password, which is the default, "external"
# with its certificate alone (docs/tls.md). The broker needs a plugin for that.
#login = "external"

# TLS, for amqps:// URLs: who may have signed the broker's certificate (left out, the
# authorities that this host trusts), berth's own certificate and its key for a broker
# that asks for one, a name to expect in place of the URL's host, and the oldest version,
# "1.2" or "1.3". Files are in PEM, and read for each connection.
#tls_ca = "/etc/berth/ca.pem"
#tls_cert = "/etc/berth/client.pem"
#tls_key = "/etc/berth/client.key"
#tls_server_name = "rabbit.example.com"
#tls_min_version = "1.2"

# Who may ask this berth for its status, to step down and to reload: users of the broker,
# or of this host with "local". Left out, its own user there, and root on this host.
#admins = ["operator"]

# Which other users of the broker this lock's berths log in as. What they write into its
# ledger counts; what anybody else writes has everybody wait. Left out, berth's own user.
#lock_users = ["berth-west"]

# How queues are named: name, slot and letter in this order, N-L-A or N-A-L. Every
# berth that uses a lock must agree on it.
#naming = "N-L-A"

# How berth finds out which queues exist: "confirm" publishes to them and awaits the
# broker's confirms, "tx" does it in a transaction, "passive" declares them passively,
# one after the other, of which the broker logs those that it refuses as errors.
#probe = "confirm"

# What berth says to the broker, "full" or "plain". Plain is what other implementations
# of the A/B scheme say too: nothing is consumed, so every handover takes the lease, and
# nobody can be asked anything. Everybody who uses a lock must agree on it.
#protocol = "full"

# Which queues a token semaphore has: "classic" ones are on one node each of a cluster,
# "quorum" ones on several, and the lock survives the loss of fewer than half of these.
# Left out, those that the lock has; one that is created has classic ones. Other locks
# have no choice.
#queue_type = "quorum"

# ---- Waiting for a slot ----

# true makes one attempt only. Not together with timeout.
#try = false

# Give up after this long. No default: berth waits for ever.
#timeout = "10m"

# Which waiter gets a slot first, 0 to 100, the highest first; it needs a broker.
#priority = 0

# true takes over from the berth that holds the slot: this one goes before all who wait
# and, once it is connected and prepared, asks the holder to give the slot back. With
# ready_file it asks once the file exists, with ready_command once that script, run by
# sh -c again and again, ends with status 0; what it leaves running is killed.
#takeover = false
#ready_file = "/run/importer/ready"
#ready_command = "curl -fs http://127.0.0.1:8080/ready"

# After a slot was lost and the command is dead: "retry" queues up for the next
# slot, "exit" exits with status 76, as with try, which makes one attempt.
#on_loss = "retry"

# ---- The command ----

# The program and its arguments; no shell is involved. A literal "${" is written
# "$${". A command on the command line replaces this one.
#command = ["/usr/bin/myprogram", "--flag"]

# While a proof that the slot is held is overdue: "run" lets the command run on,
# "freeze" stops all of it until the next proof. Either way it is ended before the
# slot can be somebody else's.
#in_doubt = "run"

# true runs the command in a PID namespace of its own, so that the kernel kills all
# of it even if berth and its guard are both killed. It needs CAP_SYS_ADMIN. The
# command sees only its own processes, and cannot read from a terminal.
#pid_namespace = false

# How the command is ended in order, the slot still held: signals, each with the
# time to wait after it, and KILL. A TERM, INT or QUIT to berth takes the place of the
# first signal.
#stop = "TERM 8s, KILL"

# Whom these signals are for: "first" is the command's first process, and once that has
# ended whatever it has left; "tree" is every process at once.
#stop_to = "first"

# When the command ends by itself: "never" gives the slot back and exits as the
# command did; "on-failure" and "always" keep the slot and start it again.
#restart = "never"

# The command is ended after this time, and berth exits with 124; with restart, it is
# started again. No default: it may run for ever.
#max_run = "6h"

# Signals that are handed on as others; nothing after the = drops a signal.
#rewrite = ["HUP=USR1"]

# Whom the command runs as, names or numbers in quotes. No default: as berth does.
# Anybody else needs CAP_SETUID, CAP_SETGID and CAP_KILL, as root has them. HOME, USER and
# LOGNAME become the user's, if this host knows the user. The command has no
# capabilities then, unless it is root's, and cannot type into berth's terminal.
#user = "nobody"
#group = "nogroup"

# true keeps programs that are setuid, or have capabilities in their file, from giving
# the command privileges. Left out, it is true with user and group, but for root.
#no_new_privileges = true

# Where the command runs: a directory that its user may enter. No default: where berth
# was started.
#directory = "/var/lib/myprogram"

# The command's file mode creation mask, in octal and in quotes. No default: berth's.
#umask = "0027"

# Limits of the command, as in getrlimit(2): NAME=SOFT:HARD, or NAME=LIMIT for both.
# No default: berth's.
#limit = ["NOFILE=1024:65536", "CORE=0"]

# ---- Hooks ----
#
# Programs with the command's environment and BERTH_REASON. A string is split into
# words as a shell does, a list is taken as it is; no shell is involved.

# Before the command is started in a slot. If it fails, the slot is given back, and
# berth queues up again after a pause.
#on_acquire = ["/usr/bin/myhook", "--attach"]

# When the command is dead, before the slot is given back.
#on_release = "/usr/bin/myhook --detach"

# After the slot was lost and the command is dead.
#on_lost = "/usr/bin/myalarm"

# A hook, and all that it has started, is killed after this time.
#hook_timeout = "5s"

# ---- Health checks ----
#
# A program that runs again and again while the command runs, as a hook does. When it
# has failed so often in a row, the command is ended in order, the slot is given back,
# and berth goes to the end of the line. No default: nothing is checked.
#health_command = "/usr/bin/curl -fsS http://127.0.0.1:8080/health"

# Before the first check, and from the end of one to the next.
#health_interval = "30s"

# A check, and all that it has started, is killed after this time, and has failed.
#health_timeout = "30s"

# After so many failures in a row the command is unhealthy.
#health_retries = 3

# For so long after the command's start failures do not count, unless a check has
# succeeded before. No default: each counts.
#health_start_period = "1m"

# true has the checks run while berth waits, too: it takes no slot before one has
# succeeded, or once so many in a row have failed.
#health_while_waiting = false

# ---- As a service of systemd, with Type=notify ----

# When the service counts as started: "waiting" is when berth is connected and in
# line for a slot, "holding" when its command runs.
#ready = "waiting"

# true gives the command NOTIFY_SOCKET and the watchdog: it says by itself that it is
# ready, and while it runs that it is there. It needs NotifyAccess=all in the unit, and
# on_loss = "exit" without restart.
#pass_notify = false

# ---- Watching it ----

# A page for people at /, Prometheus' metrics at /metrics, JSON at /status, probes at
# /healthz and /readyz. Anybody who reaches another address than this host's own may
# read it. No default: berth listens nowhere.
#listen = "127.0.0.1:9420"

# ---- Timings that the promise rests on ----
#
# The lease is 2 x heartbeat: for so long the broker certainly keeps the slot
# after it last heard from berth. berth refuses to start unless
#
#   verify_interval + verify_timeout + loss + 500ms <= 2 x heartbeat
#
# so that the command is dead before anybody else may start. This does not apply
# to local locks, which are not lost by time.

# Whole seconds, from 1s to 60s.
#heartbeat = "5s"

# How often berth proves that it still holds the slot, and how long a proof may
# take. Both 10ms at least.
#verify_interval = "1s"
#verify_timeout = "2s"

# How the command is ended when the slot is lost or in doubt.
#loss = "TERM 2s, KILL"

# ---- Log, on stderr ----

# trace, debug, info, warn or error
#log_level = "info"

# text or json
#log_format = "text"
