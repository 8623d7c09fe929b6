#!/bin/sh
# Checks the models of the protocol in docs/model exhaustively, and that what leaves a rule out fails. Needs spin, gcc.
#
#     model.sh            all configurations, two at a time
#     model.sh NAME ...   these; of one that has to fail, also a shortest history that fails
#
# MODEL_MB is the memory for one configuration in MB, 2400 by default.
set -eu
here=$(cd "$(dirname "$0")/../docs/model" && pwd)

# flags prints a configuration's flags, with the names in them resolved.
flags() {
	for word; do
		meaning=$(sed -n "s/^= $word  *//p" "$here/configurations")
		echo "${meaning:-$word}"
	done
}

# property says which one an output of the checker reports as violated.
property() {
	case $(grep -o 'assertion violated.*' "$1" || true) in
	*alive*) echo two ;;
	*lastStarted*) echo terms ;;
	*bounded*) echo stuck ;;
	*) echo none ;;
	esac
}

# check checks one configuration, in a directory of its own, and prints a line.
check() {
	model=$1 wanted=$2 name=$3
	shift 3
	bounds=$*
	# shellcheck disable=SC2046
	set -- $(flags "$@")
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
	trap 'exit 1' HUP INT TERM
	cd "$dir"
	cp "$here"/*.pml .
	search=''
	if [ "$wanted" != sound ]; then
		set -- "$@" "-D$name"
		search=-DBFS # the first history that it finds is a shortest one
	fi
	# shellcheck disable=SC2086
	spin -a "$@" "$model.pml" >log 2>&1 &&
		gcc -O2 -DSAFETY -DNOBOUNDCHECK -DNOREDUCE -DMEMLIM="${MODEL_MB:-2400}" $search -o pan pan.c >>log 2>&1 || {
		cat log >&2
		return 1
	}
	./pan -m500000 -w24 >out 2>&1 || true
	found=$(property out)
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' out)
	if ! grep -q 'errors: [01]$' out || { [ "$found" = none ] && grep -q 'not completed' out; }; then
		verdict="NOT FINISHED: $(grep -m 1 -E 'memory|depth|error' out || true)"
	elif [ "$found" = none ] && [ "$wanted" = sound ]; then
		verdict=holds
	elif [ "$found" = "$wanted" ]; then
		verdict='fails, as it must'
	elif [ "$found" = none ]; then
		verdict='HOLDS, but must fail'
	else
		verdict="FAILS: $found"
	fi
	property=$wanted
	[ "$wanted" != sound ] || property=two
	case "$wanted $*" in *NOT_TERMS*) ;; 'sound '*) property="$property, terms" ;; esac
	case "$wanted $*" in 'sound '*STUCK*) property="$property, stuck" ;; esac
	printf '%-10s  %-26s  %9s states  %-17s  %-17s  %s\n' "$model" "$name" "$states" "$property" "$verdict" "$bounds"
	if [ -n "${MODEL_HISTORY:-}" ] && [ -e "$model.pml.trail" ]; then
		spin -t "$@" "$model.pml" 2>/dev/null | sed -n '/^#processes/q; s/^  */    /p'
	fi
	case $verdict in
	holds | fails*) ;;
	*) return 1 ;;
	esac
}

if [ "${1:-}" = check ]; then
	shift
	check "$@"
	exit
fi

list=$(grep -E '^[a-z]+ +(sound|two|terms|stuck) ' "$here/configurations")
if [ $# -gt 0 ]; then
	MODEL_HISTORY=1
	export MODEL_HISTORY
	all=$list list=
	for name; do
		line=$(echo "$all" | grep -E "^[a-z]+ +[a-z]+ +$name " || true)
		[ -n "$line" ] || { echo "model: no configuration $name" >&2; exit 64; }
		list="$list$line
"
	done
fi
echo "$list" | sed '/^$/d' | xargs -P 2 -L 1 "$0" check
