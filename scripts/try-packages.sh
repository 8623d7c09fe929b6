#!/bin/bash
# Tries what `make packages` builds, on two hosts that are booted with Debian's own
# systemd (systemd-nspawn), against a private RabbitMQ on 127.0.0.1: install, verify,
# start, stand by, take over, stop in order, watchdog, remove. Then the image's root as
# PID 1. It takes root on Debian, some minutes and 300 MB; it leaves nothing running.
set -euo pipefail
cd "$(dirname "$0")/.."
export DEBIAN_FRONTEND=noninteractive

scripts/deps.sh brokers
for package in systemd-container:systemd-nspawn lintian:lintian man-db:man; do
	command -v "${package#*:}" >/dev/null || apt-get install -y -q --no-install-recommends "${package%:*}"
done
packaging/build.sh amd64
deb=$(ls -t dist/berth_*_amd64.deb | head -n 1)
prover=$(ls -t dist/berth-prover_*_amd64.deb | head -n 1)
dir=$(mktemp -d /tmp/berth-try.XXXXXX)
declare -A leader nspawn
broker=

clean() {
	status=$?
	[ $status = 0 ] || for host in "${!leader[@]}"; do
		on "$host" journalctl -u 'berth@*' --no-pager -o cat | tail -n 20 || true
	done
	for host in "${!nspawn[@]}"; do kill "${nspawn[$host]}" 2>/dev/null || true; done
	[ -z "$broker" ] || kill "$broker" 2>/dev/null || true
	wait || true
	rm -rf "$dir"
	[ $status = 0 ] && echo "try-packages: all as it should be" || echo "try-packages: failed" >&2
}
trap clean EXIT

say() { echo "== $*"; }
on() { timeout 120 nsenter -t "${leader[$1]}" -a -- "${@:2}"; }

# await WHAT SECONDS COMMAND...: until the command succeeds.
await() {
	local what=$1 over=$((SECONDS + $2))
	shift 2
	until "$@"; do
		((SECONDS < over)) || { echo "try-packages: not in time: $what" >&2; return 1; }
		sleep 0.2
	done
}
text() { on "$1" systemctl show "berth@$2" -p StatusText --value; }
state() { on "$1" systemctl show "berth@$2" -p ActiveState --value; }
says() { [[ $(text "$1" "$2") == $3* ]]; }

say "lintian"
lintian --allow-root --fail-on error "$deb" "$prover"

say "two builds are the same bytes"
cp dist/SHA256SUMS "$dir/first"
packaging/build.sh amd64 >/dev/null
diff "$dir/first" dist/SHA256SUMS

say "the bill of materials names what berth is built from"
for module in $(go version -m dist/build/amd64/berth | awk '$1 == "dep" { print $2 }'); do
	grep -q "\"name\": \"$module\"" dist/berth-[0-9]*-amd64.cdx.json
done

say "a broker"
go build -o "$dir/broker" ./scripts/broker
"$dir/broker" >"$dir/url" &
broker=$!
await "the broker" 60 test -s "$dir/url"
url=$(cat "$dir/url")

say "two hosts"
mirror=$(apt-get indextargets --format '$(SITE)' 'Origin: Debian' 'Label: Debian' | head -n 1)
debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,man-db bookworm "$dir/one" "$mirror" >"$dir/debootstrap.log"
printf '127.0.0.1 localhost one two\n' >"$dir/one/etc/hosts"
cp -a "$dir/one" "$dir/two"
for host in one two; do
	echo "$host" >"$dir/$host/etc/hostname"
	: >"$dir/$host/etc/machine-id"
	cp "$deb" "$dir/$host/srv/berth.deb"
	SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 systemd-nspawn -q -D "$dir/$host" -b --register=no --keep-unit -M "try-$host-$$" </dev/null >"$dir/$host.log" 2>&1 &
	nspawn[$host]=$!
	await "the first process of $host" 30 pgrep -P "${nspawn[$host]}"
	leader[$host]=$(pgrep -P "${nspawn[$host]}")
	await "$host has booted" 60 on "$host" systemctl is-active -q multi-user.target
done

say "install: user and directory, nothing started"
for host in one two; do
	on "$host" dpkg -i /srv/berth.deb
	on "$host" getent passwd berth
	[ "$(on "$host" stat -c '%U:%G %a' /etc/berth)" = "root:berth 750" ]
	[ -z "$(on "$host" systemctl list-units 'berth@*' --no-legend)" ]
	cat >"$dir/$host/etc/berth/importer.hcl" <<-END
		mutex   = "importer"
		command = ["/bin/sh", "-c", "echo up; trap 'echo ending; exit 0' TERM; while :; do sleep 0.2; done"]
	END
	# The URL is a credential: only root can read the file.
	(umask 077 && echo "$url" >"$dir/$host/etc/berth/importer.broker")
	mkdir "$dir/$host/etc/systemd/system/berth@importer.service.d"
	printf '[Service]\nLoadCredential=broker:/etc/berth/importer.broker\nEnvironment=BERTH_BROKER_FILE=%%d/broker\n' >"$dir/$host/etc/systemd/system/berth@importer.service.d/broker.conf"
	on "$host" chgrp berth /etc/berth/importer.hcl
	on "$host" systemctl daemon-reload
done
on one systemd-analyze verify berth@importer.service
on one systemd-analyze security --no-pager berth@importer.service | tail -n 1
on one man -P cat berth | head -n 4
on one test -r /usr/share/doc/berth/docs/guide.md -a -x /usr/share/doc/berth/examples/workers/worker

say "the prover judges a lock by itself"
cp "$prover" "$dir/one/srv/prover.deb"
on one dpkg -i /srv/prover.deb
on one berth-prove run --adapter "flock /tmp/{lock} {witness}" --faults kill,kill-child --time 3s
on one test -r /usr/share/doc/berth-prover/docs/prover.md -a -r /usr/share/doc/berth-prover/prover/example/client.py

say "one holds, two stands by"
on one systemctl start berth@importer
await "one holds" 30 says one importer "holding importer"
on two systemctl start berth@importer
await "two waits" 30 says two importer "waiting for importer"
on one systemctl status --no-pager berth@importer | sed -n 1,8p || true

say "a stop in order, and two takes over"
on one systemctl stop berth@importer
await "two holds" 30 says two importer "holding importer"
on one journalctl -u berth@importer --no-pager -o cat | grep -qx ending
[ "$(on one systemctl show berth@importer -p Result --value)" = success ]

say "a supervisor that is stopped: one takes over, and the watchdog ends it"
on one systemctl start berth@importer
on two systemctl kill --kill-who=main --signal=STOP berth@importer
await "one holds" 30 says one importer "holding importer"
restarted() { [ "$(on two systemctl show berth@importer -p NRestarts --value)" != 0 ] && [ "$(state two importer)" = active ]; }
await "the watchdog has restarted two" 90 restarted
says two importer "waiting for importer"

say "a start and an end that take longer than their time-outs"
cat >"$dir/two/etc/berth/slow.hcl" <<-END
	semaphore = "slow"
	ready     = "holding"
	broker    = "$url"
	command   = ["/bin/sh", "-c", "trap 'sleep 5; echo saved; exit 0' TERM; while :; do sleep 0.2; done"]
END
on two chgrp berth /etc/berth/slow.hcl
mkdir "$dir/two/etc/systemd/system/berth@slow.service.d"
printf '[Service]\nTimeoutStartSec=3\nTimeoutStopSec=2\n' >"$dir/two/etc/systemd/system/berth@slow.service.d/short.conf"
on two systemctl daemon-reload
on two systemctl start --no-block berth@slow
sleep 6 # longer than the time-out, which is what is tried
[ "$(state two slow)" = activating ]
dist/build/amd64/berth semaphore create slow --slots 1 --broker "$url"
await "slow is ready" 30 says two slow "holding slot 1 of slow"
await "slow is active" 30 [ "$(state two slow)" = active ]
on two systemctl stop berth@slow
on two journalctl -u berth@slow --no-pager -o cat | grep -qx saved

say "remove: what runs is ended, what people wrote stays"
on one apt-get remove -y -q berth >"$dir/remove.log"
[ "$(state one importer)" = inactive ]
[ -e "$dir/one/etc/berth/importer.hcl" ]
rm -r "$dir/one/etc/berth/"* "$dir/one/etc/systemd/system/berth@importer.service.d"
on one dpkg --purge berth
[ ! -e "$dir/one/etc/berth" ]

say "the image's root as PID 1, not root, in namespaces of its own"
root=$dir/image
cp -a dist/build/amd64/root "$root"
cat >"$dir/orphans.c" <<-END
	#include <signal.h>
	#include <stdio.h>
	#include <sys/wait.h>
	#include <unistd.h>
	int main(void) {
		printf("uid %d\n", getuid());
		fflush(stdout);
		for (int i = 0; i < 5; i++)
			if (!fork()) {
				if (!fork()) { setsid(); sleep(1); }
				_exit(0);
			}
		while (wait(0) > 0);
		signal(SIGTERM, SIG_IGN);
		for (;;) pause();
	}
END
gcc -static -o "$root/usr/bin/orphans" "$dir/orphans.c"
unshare --mount --pid --fork --kill-child --uts --ipc sh -c '
	mount -t proc proc "$0/proc"
	exec chroot --userspec=65532:65532 --groups= "$0" /usr/bin/berth run --broker "$1" --mutex image --stop "TERM 1s, KILL" -- /usr/bin/orphans' \
	"$root" "$url" >"$dir/image.log" 2>&1 &
outside=$!
await "the command in the image" 30 grep -qx "uid 65532" "$dir/image.log"
inside=$(pgrep -P "$outside")
sleep 2 # the orphans end after one
[ "$(ps -o stat= --ppid "$inside" | grep -c '^Z' || true)" = 0 ]
kill -TERM "$inside"
wait "$outside" && status=0 || status=$?
[ "$status" = 137 ] # of a command that ignores TERM, after the stop sequence
