#!/bin/sh
# Builds etcd and etcdctl of the newest release that the Go module proxy has, for
# make bench, and prints where they are: a directory for PATH. What is there already
# is left as it is.
#
# They cannot be installed by themselves (go install), because their go.mod replaces
# modules: a module of our own requires them.
set -eu
cd "$(dirname "$0")/.."
place=$PWD/dist/etcd

version=$(go list -m -f '{{.Version}}' go.etcd.io/etcd/etcdctl/v3@latest)
dir=$place/$version
if [ ! -x "$dir/etcdctl" ]; then
	echo "etcd: building $version" >&2
	rm -rf "$place/module"
	mkdir -p "$place/module" "$dir"
	cd "$place/module"
	go mod init bench >/dev/null 2>&1
	go get "go.etcd.io/etcd/etcdctl/v3@$version" "go.etcd.io/etcd/server/v3@$version" >"$place/log" 2>&1 || {
		tail -n 5 "$place/log" >&2
		exit 1
	}
	CGO_ENABLED=0 go build -o "$dir/etcd" go.etcd.io/etcd/server/v3
	CGO_ENABLED=0 go build -o "$dir/etcdctl" go.etcd.io/etcd/etcdctl/v3
fi
echo "$dir"
