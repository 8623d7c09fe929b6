#!/bin/sh
# Installs what the tests need on Debian, or says what is missing. It prints
# nothing when all is there.
#
#     deps.sh          for make test
#     deps.sh faults   for make faults
#     deps.sh bench    for make bench
#     deps.sh programs for make programs
#     deps.sh brokers  for scripts/brokers.sh
#     deps.sh model    for make model, which needs neither Go nor a broker
set -eu
suite=${1:-}

# missing prints the packages that are needed and not there.
missing() {
	# The race detector needs cgo, and the model's checker is C: a compiler and the C library's headers.
	command -v gcc >/dev/null || echo gcc
	[ -e /usr/include/stdlib.h ] || echo libc6-dev
	if [ "$suite" = model ]; then
		command -v spin >/dev/null || echo spin
		return 0
	fi
	[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || echo rabbitmq-server
	command -v epmd >/dev/null && command -v erl >/dev/null || echo erlang-base
	command -v promtool >/dev/null || echo prometheus
	command -v make >/dev/null || echo make
	# Of the recipe that has a database refuse a lower term.
	[ -n "$suite" ] || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || echo postgresql
	# Of the client that contends with berth, in Debian's Python and no other.
	[ -n "$suite" ] || /usr/bin/python3 -c 'import pika' 2>/dev/null || echo python3-pika
	# Of the example with its beat.
	[ -n "$suite" ] || /usr/bin/python3 -c 'import celery' 2>/dev/null || echo python3-celery
	command -v git >/dev/null || echo git
	[ "$suite" != faults ] || { command -v ip && command -v tc; } >/dev/null || echo iproute2
	[ "$suite" != programs ] || missing_programs
	[ "$suite" != brokers ] || command -v debootstrap >/dev/null || echo debootstrap
	[ "$suite" = bench ] || return 0
	command -v etcd >/dev/null || echo etcd-server
	command -v etcdctl >/dev/null || echo etcd-client
	command -v flock >/dev/null || echo util-linux
}

# missing_programs prints the packages of the programs that the guide says how to end.
missing_programs() {
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || echo postgresql
	# In Debian's Python and no other.
	/usr/bin/python3 -c 'import celery' 2>/dev/null || echo python3-celery
	[ -x /usr/bin/gunicorn ] || echo gunicorn
	[ -x /usr/bin/uwsgi ] || echo uwsgi-core
	[ -e /usr/lib/uwsgi/plugins/python3_plugin.so ] || echo uwsgi-plugin-python3
	[ -x /usr/sbin/nginx ] || echo nginx-light
	ls /usr/sbin/php-fpm* >/dev/null 2>&1 || echo php-fpm
	command -v npm >/dev/null || echo npm
	command -v tini >/dev/null || echo tini
	command -v dumb-init >/dev/null || echo dumb-init
	[ -x /usr/bin/supervisord ] || echo supervisor
}

fail() {
	echo "deps: $*" >&2
	exit 1
}

[ "$suite" = model ] || command -v go >/dev/null || fail "go is not in PATH; install Go (go.mod says which) from https://go.dev/dl/"

# Word splitting is wanted: a list of package names.
# shellcheck disable=SC2046
set -- $(missing)
[ $# -gt 0 ] || exit 0

[ -e /etc/debian_version ] && command -v apt-get >/dev/null ||
	fail "missing: $*; install them (the names are Debian's)"
[ "$(id -u)" -eq 0 ] || fail "missing: $*; run as root: apt-get install $*"

# Debian starts a service as soon as it is installed, and a broker started like
# that listens on all addresses. policy-rc.d forbids it (exit status 101) while
# we install; one that is there already is the machine owner's, and stays.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ] && [ ! -L "$policy" ]; then
	trap 'rm -f "$policy"' EXIT
	trap 'exit 1' HUP INT TERM
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi

log=$(mktemp)
install() {
	DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" >"$log" 2>&1
}

echo "deps: installing $*"
if ! install "$@"; then
	apt-get update -q >"$log" 2>&1 && install "$@" || {
		tail -n 20 "$log" >&2
		fail "cannot install $*; the end of $log is above"
	}
fi
rm -f "$log"

# shellcheck disable=SC2046
set -- $(missing)
[ $# -eq 0 ] || fail "still missing after installation: $*"
