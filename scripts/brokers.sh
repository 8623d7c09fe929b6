#!/bin/sh
# Installs versions of RabbitMQ beside each other, for tests, and prints where each
# is: a directory with rabbitmq-server and rabbitmqctl, for BERTH_TEST_BROKER.
# What is there already is left as it is.
#
#     brokers.sh 4.0         one version
#     brokers.sh 4.0 4.3     several
#     brokers.sh all         all that the tests are run on
#
# A version is the machine's own, or what one of Debian's suites ships, in a root
# directory of its own below dist/brokers, a few hundred MB each. Its programs are
# started in a mount namespace of their own, which takes root.
set -eu
cd "$(dirname "$0")/.."
place=$PWD/dist/brokers
known="3.10 4.0 4.3"
own=/usr/lib/rabbitmq/bin

fail() {
	echo "brokers: $*" >&2
	exit 1
}

# suite prints which of Debian's suites ships a version.
suite() {
	case $1 in
	3.10) echo bookworm ;;
	4.0) echo trixie ;;
	4.3) echo sid ;;
	*) fail "unknown version $1; there are: $known" ;;
	esac
}

# owned reports whether the machine's own RabbitMQ is of that version.
owned() {
	[ -x "$own/rabbitmq-server" ] || return 1
	case $(dpkg-query --show --showformat '${Version}' rabbitmq-server 2>/dev/null) in
	"$1".*) ;;
	*) return 1 ;;
	esac
}

# mirror prints where this machine gets Debian from: apt knows.
mirror() {
	apt-get indextargets --format '$(SITE)' 'Origin: Debian' 'Label: Debian' | head -n 1
}

# enclosed runs a command whose mounts and processes end with it.
enclosed() {
	unshare --mount --pid --fork --kill-child --mount-proc "$@"
}

# bootstrap makes the root directory $3 from the suite $1 of the mirror $2, with
# RabbitMQ in it. Debian starts a service as soon as it is installed; policy-rc.d
# forbids it.
bootstrap() {
	enclosed debootstrap --variant=minbase --keyring=/usr/share/keyrings/debian-archive-keyring.gpg "$1" "$3" "$2" &&
		printf '#!/bin/sh\nexit 101\n' >"$3/usr/sbin/policy-rc.d" &&
		chmod 755 "$3/usr/sbin/policy-rc.d" &&
		printf '127.0.0.1 localhost\n' >"$3/etc/hosts" &&
		enclosed sh -ec '
			mount -t proc proc "$0/proc"
			mount --rbind /dev "$0/dev"
			export DEBIAN_FRONTEND=noninteractive
			chroot "$0" apt-get install -y -q --no-install-recommends rabbitmq-server
			chroot "$0" apt-get clean' "$3"
}

# entrance writes $2/$3, which becomes the program of that name in the root
# directory $1: it keeps process number, descriptors, environment and working
# directory. HOME is the broker's directory, and everything that it needs.
entrance() {
	cat >"$2/$3" <<-END
		#!/bin/sh
		# Made by scripts/brokers.sh.
		exec unshare --mount sh -ec '
			mount --rbind /proc "\$0/proc"
			mount --rbind /dev "\$0/dev"
			mount -t tmpfs tmpfs "\$0/tmp"
			mkdir -p "\$0\$HOME"
			mount --bind "\$HOME" "\$0\$HOME"
			exec chroot "\$0" env --chdir="\$HOME" /usr/lib/rabbitmq/bin/$3 "\$@"' '$1' "\$@"
	END
	chmod 755 "$2/$3"
}

# install makes the directory of a version.
install() {
	version=$1
	suite=$(suite "$version")
	dir=$place/$version
	[ -e /etc/debian_version ] && command -v apt-get >/dev/null ||
		fail "RabbitMQ $version is installed from Debian's suites, on Debian; elsewhere set BERTH_TEST_BROKER to a directory with its rabbitmq-server and rabbitmqctl"
	[ "$(id -u)" -eq 0 ] || fail "RabbitMQ $version lives in a root directory of its own; run as root: scripts/brokers.sh $version"
	scripts/deps.sh brokers >&2
	[ -n "$(mirror)" ] || apt-get update -q >/dev/null 2>&1 || true
	mirror=$(mirror)
	[ -n "$mirror" ] || fail "apt knows no mirror of Debian; is one in /etc/apt/sources.list, and can apt-get update reach it?"
	part=$dir.part
	rm -rf "$part"
	mkdir -p "$part/bin"
	echo "brokers: installing RabbitMQ $version from $suite; it takes some minutes" >&2
	bootstrap "$suite" "$mirror" "$part/root" >"$part/log" 2>&1 || {
		tail -n 20 "$part/log" >&2
		fail "cannot make a root directory with RabbitMQ $version from $suite at $mirror; is there a network? The end of $part/log is above"
	}
	shipped=$(chroot "$part/root" dpkg-query --show --showformat '${Version}' rabbitmq-server)
	case $shipped in
	"$version".*) ;;
	*) fail "$suite ships RabbitMQ $shipped by now, not $version; bring scripts/brokers.sh and the Makefile up to date" ;;
	esac
	entrance "$dir/root" "$part/bin" rabbitmq-server
	entrance "$dir/root" "$part/bin" rabbitmqctl
	rm -rf "$dir"
	mv "$part" "$dir"
	echo "brokers: installed RabbitMQ $shipped" >&2
}

[ $# -gt 0 ] || fail "say which version: $known, or all"
# Word splitting is wanted: a list of versions.
# shellcheck disable=SC2086
[ "$*" != all ] || set -- $known
for version; do
	suite "$version" >/dev/null
	if owned "$version"; then
		echo "$own"
		continue
	fi
	[ -x "$place/$version/bin/rabbitmq-server" ] || install "$version"
	echo "$place/$version/bin"
done
