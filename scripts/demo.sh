#!/usr/bin/env bash
# The main job on one host, without a broker: two contenders for one lock, the
# first is killed in the hardest way, the second takes over.
set -euo pipefail
cd "$(dirname "$0")/.."
berth=$PWD/berth
place=$(mktemp -d)
pids=()

cleanup() {
	for pid in "${pids[@]}"; do
		kill "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	rm -rf "$place"
}
trap cleanup EXIT

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

# await WHAT COMMAND...: until the command succeeds, 20 s at most.
await() {
	local what=$1
	shift
	for _ in $(seq 400); do
		if "$@" >/dev/null 2>&1; then return; fi
		sleep 0.05
	done
	echo "demo: gave up waiting until $what" >&2
	sed 's/^/    /' "$place"/*.log >&2
	exit 1
}

# The job ignores TERM and keeps a child in a session of its own: the kind of
# command that outlives other wrappers.
cat >"$place/job" <<'JOB'
#!/bin/sh
trap '' TERM
setsid sh -c 'trap "" TERM; echo $$ >>"$PLACE/pids"; while :; do sleep 1; done' &
echo $$ >>"$PLACE/pids"
echo "$1 runs in slot $BERTH_SLOT" | tee -a "$PLACE/runs"
while :; do sleep 1; done
JOB
chmod +x "$place/job"
export PLACE=$place BERTH_BROKER=local://$place/locks

say "Two contenders want the mutex \"demo\". The first gets it:"
"$berth" run --mutex demo -- "$place/job" first 2>"$place/first.log" &
first=$!
pids+=("$first")
await "the first runs" grep -q "first runs" "$place/runs"
"$berth" run --mutex demo --stop "TERM 300ms, KILL" -- "$place/job" second 2>"$place/second.log" &
second=$!
pids+=("$second")
await "the second waits" grep -q waiting "$place/second.log"
echo "second waits"

say "One attempt by a third one fails at once, with status 75:"
status=0
"$berth" run --mutex demo --try -- true || status=$?
echo "exit status $status"
[ "$status" = 75 ]

say "The first berth is killed with SIGKILL. Its command and that command's child ignore TERM; both die, then the second runs:"
await "both processes of the first are known" sh -c "[ \$(wc -l <'$place/pids') -ge 2 ]"
old=$(cat "$place/pids")
kill -KILL "$first"
wait "$first" 2>/dev/null || true
await "the second runs" grep -q "second runs" "$place/runs"
for pid in $old; do
	if kill -0 "$pid" 2>/dev/null; then
		echo "demo: process $pid of the first command is still alive" >&2
		exit 1
	fi
	echo "process $pid of the first command is dead"
done

say "The second is told to end, and ends the command that ignores TERM after the 300 ms that it was given:"
kill -TERM "$second"
status=0
wait "$second" || status=$?
echo "exit status $status (128 + 9: the command had to be killed)"
[ "$status" = 137 ]

say "What the second logged:"
sed 's/^/    /' "$place/second.log"
say "Everything worked. README.md says how to use it with RabbitMQ."
