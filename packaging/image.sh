#!/bin/sh
# Makes the root file system of berth's image: image.sh BINARY DIRECTORY. `docker import` and the Dockerfile take the
# tar file that `make packages` makes of it.
#
# It has berth, the list of what berth is built from if sbom.sh has made it, the user 65532 that berth runs as, the
# certificates that amqps:// needs, and a place for locks of the host, should somebody mount one there.
set -eu
binary=$1 root=$2
rm -rf "$root"
mkdir -p "$root/usr/bin" "$root/etc/ssl/certs" "$root/etc/berth" "$root/run/berth" "$root/tmp" "$root/proc" "$root/sys" "$root/dev"
cp "$binary" "$root/usr/bin/berth"
chmod 755 "$root/usr/bin/berth"
bill=$(dirname "$binary")/berth.cdx.json
[ ! -e "$bill" ] || install -D -m 644 -t "$root/usr/share/doc/berth" "$bill"
printf 'root:x:0:0:root:/:/sbin/nologin\nberth:x:65532:65532:berth:/:/sbin/nologin\n' >"$root/etc/passwd"
printf 'root:x:0:\nberth:x:65532:\n' >"$root/etc/group"
bundle=$root/etc/ssl/certs/ca-certificates.crt
for certificates in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
	if [ -e "$certificates" ]; then
		cp "$certificates" "$bundle"
		chmod 644 "$bundle"
		break
	fi
done
[ -e "$bundle" ] || {
	echo "image: this host has no certificates of authorities, without which amqps:// fails; install ca-certificates" >&2
	exit 1
}
chmod 1777 "$root/tmp" "$root/run/berth"
