#!/bin/sh
# Lists what a program is built from: sbom.sh PROGRAM VERSION writes a bill of materials beside it, in CycloneDX's JSON.
# It reads the program, and neither a clock nor the network: the same bytes have the same bill.
set -eu
cd "$(dirname "$0")/.."
# The bill names its maker with a checksum, which must not depend on where the source is.
tool=$(GOFLAGS=-trimpath CGO_ENABLED=0 go -C packaging/tools tool -n cyclonedx-gomod)
"$tool" bin -json -noserial -notimestamp -std -version "$2" -output "$1.cdx.json" "$1"
