#!/bin/bash
# Has berth-prove judge every kind of lock of berth under all faults, on several
# versions of RabbitMQ: make prove. It prints a line for each run, goes on after a
# violation, and leaves dist/prove/NAME.html, .json and .jsonl.
#
#     PROVE_VERSIONS   which versions; scripts/brokers.sh installs what is missing
#     PROVE_TIME       for how long faults strike in each run
#     PROVE_SEED       of all runs; without it each draws its own
#
# Exit status: 1 if anything was violated, else 2 if something cannot be judged.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
PATH=$PWD:$PWD/dist:$PATH
modes=(plain stubborn forking)
runs=0 violated=0 unknown=0

# summary prints in one line what the report on its input has found.
summary() {
	awk -v name="$1" -v mode="$2" '
		match($0, /^seed [0-9]+/) { seed = substr($0, 1, RLENGTH) }
		match($0, /[0-9]+ commands?, [0-9]+ faults?$/) { counts = substr($0, RSTART) }
		/^(kept|violated|unknown) / {
			found = found (found ? ", " : "") $2 " " $1
			if ($1 == "violated") found = found " (" $3 ")"
		}
		END { print name ", " mode ", " (seed ? seed ", " counts ": " found : "no verdict") }'
}

# prove judges one kind of lock: its name, slots, flags of berth run, and what makes
# it, if anything has to.
prove() {
	local name=$1-$version mode=${modes[runs++ % 3]} output status
	local flags=(--adapter "berth run $3 --broker {broker} --heartbeat 2s --loss KILL -- {witness}" --slots "$2"
		--broker "$broker" --faults all --commands "$mode" --time "${PROVE_TIME:-45s}")
	[ $# -lt 4 ] || flags+=(--setup "$4")
	[ -z "${PROVE_SEED:-}" ] || flags+=(--seed "$PROVE_SEED")
	output=$(berth-prove run "${flags[@]}" --history "dist/prove/$name.jsonl" --report "dist/prove/$name.json" \
		--report "dist/prove/$name.html" 2>&1)
	status=$?
	summary "$name" "$mode" <<<"$output"
	case $status in
	0) ;;
	1 | 3) violated=1 ;;
	*) unknown=2 ;;
	esac
	[ $status -eq 0 ] || printf '%s\n' "$output" >&2
}

mkdir -p dist/prove || exit 2
for version in ${PROVE_VERSIONS:-3.10 4.3}; do
	dir=$(scripts/brokers.sh "$version") || exit 2
	broker=start
	case $dir in
	*/dist/brokers/*) broker=start:$version ;;
	esac
	prove mutex 1 "--mutex {lock}"
	prove persistent-mutex 1 "--persistent-mutex {lock}" "berth persistent-mutex enable {lock} --broker {broker}"
	prove semaphore 3 "--semaphore {lock}" "berth semaphore create {lock} --slots {slots} --broker {broker}"
	prove token-semaphore 3 "--token-semaphore {lock}" \
		"berth token-semaphore create {lock} --slots {slots} --broker {broker}"
	# RabbitMQ 3.10 never answers again for a quorum queue that is younger than some seconds when it is killed.
	prove quorum-mutex 1 "--mutex {lock} --queue-type quorum" \
		"berth run --mutex {lock} --queue-type quorum --broker {broker} -- sleep 5"
done
[ $violated -eq 0 ] || exit $violated
exit $unknown
