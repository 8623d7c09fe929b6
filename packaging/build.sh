#!/bin/sh
# Builds the packages and the image into dist/, and bills of what they are built
# from: `make packages`. Two builds of one commit are the same bytes: every time in
# them is the commit's.
#
#     build.sh              for amd64 and arm64
#     build.sh amd64        for one of them
set -eu
cd "$(dirname "$0")/.."
umask 022
[ $# -gt 0 ] || set -- amd64 arm64

VERSION=$(scripts/version.sh)
[ "$VERSION" != unknown ] || {
	echo "packages: this is no git repository, from which the version comes; clone it" >&2
	exit 1
}
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export VERSION SOURCE_DATE_EPOCH
date=$(date --utc --date "@$SOURCE_DATE_EPOCH" +%Y-%m-%d)

export DOCS=dist/build/docs
rm -rf dist/build dist/berth_* dist/berth-[0-9]* dist/berth-prover[_-]* dist/SHA256SUMS
mkdir -p "$DOCS"
go run ./packaging/manual "$DOCS" "$date"
gzip -9n "$DOCS/berth.1" "$DOCS/berth.hcl.5"
# The pages, and what they link to, in the places that they expect. Of the commit, whatever umask it was checked out
# with. The underscore keeps an example out of the packages that go test finds.
mkdir "$DOCS/_pages"
git archive HEAD README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md config.example.hcl docs examples \
	packaging/docker packaging/kubernetes packaging/observe |
	tar --extract --no-same-permissions --directory "$DOCS/_pages"
mkdir "$DOCS/_prover"
git archive HEAD docs/prover.md docs/hold.md docs/history.md docs/proof.md prover/example |
	tar --extract --no-same-permissions --directory "$DOCS/_prover"
gzip -9nc CHANGELOG.md >"$DOCS/changelog.gz"

# changelog prints Debian's changelog of a package.
changelog() {
	cat <<-END
		$1 ($VERSION-1) unstable; urgency=medium

		  * What has changed is in changelog.gz.

		 -- berth contributors <berth@example.org>  $(LC_ALL=C date --utc --date "@$SOURCE_DATE_EPOCH" '+%a, %d %b %Y %H:%M:%S +0000')
	END
}
changelog berth | gzip -9n >"$DOCS/changelog.Debian.gz"
changelog berth-prover | gzip -9n >"$DOCS/changelog.prover.gz"

nfpm=$(go -C packaging/tools tool -n nfpm)
for ARCH in "$@"; do
	export ARCH BUILT=dist/build/$ARCH
	GOOS=linux GOARCH=$ARCH make --no-print-directory build OUT="$BUILT/berth" VERSION="$VERSION"
	GOOS=linux GOARCH=$ARCH make --no-print-directory prover PROVER="$BUILT/berth-prove"
	packaging/sbom.sh "$BUILT/berth" "$VERSION"
	packaging/sbom.sh "$BUILT/berth-prove" "$VERSION"
	cp "$BUILT/berth.cdx.json" "dist/berth-$VERSION-$ARCH.cdx.json"
	cp "$BUILT/berth-prove.cdx.json" "dist/berth-prover-$VERSION-$ARCH.cdx.json"
	for format in deb rpm; do
		"$nfpm" package --config packaging/nfpm.yaml --packager "$format" --target dist/
		"$nfpm" package --config packaging/prover/nfpm.yaml --packager "$format" --target dist/
	done
	packaging/image.sh "$BUILT/berth" "$BUILT/root"
	tar --create --file "dist/berth-$VERSION-$ARCH-image.tar" --directory "$BUILT/root" \
		--sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" .
done
(cd dist && sha256sum -- *"$VERSION"*.deb *"$VERSION"*.rpm *"$VERSION"*.tar *"$VERSION"*.cdx.json >SHA256SUMS)
echo "packages: $(cd dist && ls -1 -- *"$VERSION"* | wc -l) files in dist/, for version $VERSION"
