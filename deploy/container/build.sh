#!/usr/bin/env bash
# build.sh ARCHIVE [REFERENCE [PLATFORM]...]: the image of Containerfile as an OCI archive, by buildah, without a registry.
#
# Needs root, buildah and debootstrap: `make image` installs them. BASE is a Debian 12 made of Debian's packages once, in
# .cache/container. PLATFORM is linux/amd64 or linux/arm64, this machine's by default. Prints the digest.
set -euo pipefail
cd "$(dirname "$0")/../.."
archive=$(realpath -m "$1") reference=${2:-localhost/gpu-exporter:dev}
platforms=("${@:3}")
[ ${#platforms[@]} != 0 ] || platforms=("linux/$(dpkg --print-architecture)")
cache=$PWD/.cache/container
mkdir -p "$cache"
work=$(mktemp -d -p "$cache")
trap 'rm -rf "$work"' EXIT
builder=(buildah --root "$work/store" --runroot "$work/run" --storage-driver vfs)

make_base() { # FOLDER
  local mirror=http://deb.debian.org
  debootstrap --variant=minbase bookworm "$1" $mirror/debian
  printf 'deb %s main\n' "$mirror/debian bookworm" "$mirror/debian bookworm-updates" \
    "$mirror/debian-security bookworm-security" >"$1/etc/apt/sources.list"
  rm -f "$1"/var/cache/apt/archives/*.deb
}

if [ ! -d "$cache/base" ]; then
  echo "== Debian 12 in $cache/base" >&2
  make_base "$work/base" >&2
  mv "$work/base" "$cache/base"
fi
if [ -n "${PIP_CERT:-}" ]; then # behind a proxy that inspects TLS
  cp "$PIP_CERT" "$cache/base/etc/pip-ca.crt"
  printf '[global]\ncert = /etc/pip-ca.crt\n' >"$cache/base/etc/pip.conf"
fi
container=$("${builder[@]}" from scratch)
"${builder[@]}" add -q "$container" "$cache/base" / >&2

labels=(--label "org.opencontainers.image.version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' exporter/__init__.py)")
revision=$(git describe --always --abbrev=40 --dirty --match= 2>/dev/null) &&
  labels+=(--label "org.opencontainers.image.revision=$revision")
name=--tag push=(push)
[ ${#platforms[@]} = 1 ] || name=--manifest push=(manifest push --all)
for platform in "${platforms[@]}"; do
  # buildah 1.28 reads past `FROM --platform`: the same base is there under the name of each architecture.
  base=localhost/debian-base:${platform#linux/}
  "${builder[@]}" config --arch "${platform#linux/}" "$container"
  "${builder[@]}" commit -q "$container" "$base" >&2
  "${builder[@]}" build --isolation chroot --timestamp 0 --identity-label=false "${labels[@]}" "$name" "$reference" \
    --platform "$platform" --build-arg "BASE=$base" -f deploy/container/Containerfile . >&2
done
mkdir -p "$(dirname "$archive")"
rm -f "$archive" # an archive that is there gets a second image
"${builder[@]}" "${push[@]}" -q --digestfile "$work/digest" "$reference" "oci-archive:$archive:$reference" >&2
cat "$work/digest" && echo
