#!/bin/sh
# Prints the version of this tree: that of the tag it is at, such as v1.2.0, or one
# that sorts before the next release and names the commit. "unknown" without git.
#
#     version.sh          the version
#     version.sh commit   the commit and its date, nothing without git
set -eu
cd "$(dirname "$0")/.."
next=0.2.0

if [ "${1:-}" = commit ]; then
	TZ=UTC git log -1 --format='%h, %cd' --abbrev=12 --date=format-local:%Y-%m-%d 2>/dev/null || true
	exit 0
fi
commit=$(git rev-parse --short=12 HEAD 2>/dev/null) || {
	echo unknown
	exit 0
}
changed=
[ -z "$(git status --porcelain --untracked-files=no)" ] || changed=.changed
if tag=$(git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null); then
	echo "${tag#v}${changed:++changed}"
else
	echo "$next~dev.$(git rev-list --count HEAD).g$commit$changed"
fi
