#!/bin/sh
# Says what berth and berth-listen in a directory are built from: sbom.sh DIRECTORY VERSION writes a bill of materials
# for each beside it, in CycloneDX's JSON. It reads the programs, and neither a clock nor the network, so that those of
# the same bytes have the same one.
set -eu
cd "$(dirname "$0")/.."
# The bill names its maker with a checksum, which must not depend on where the source is.
tool=$(GOFLAGS=-trimpath CGO_ENABLED=0 go -C packaging/tools tool -n cyclonedx-gomod)
for program in berth berth-listen; do
	"$tool" bin -json -noserial -notimestamp -std -version "$2" -output "$1/$program.cdx.json" "$1/$program"
done
