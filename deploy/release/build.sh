#!/usr/bin/env bash
# build.sh OUT [TAG]: every artefact of a release but the image into OUT, an empty or new folder, with checksums.
#
# The version is that of exporter/__init__.py; a place that names another one, or another TAG, stops the build.
# `make release` prepares TOOLS, as for deploy/package/build.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$(realpath -m "$1") tag=${2:-}
tools=${TOOLS:-.cache/package}/bin
chart=helm/gpu-exporter
version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' exporter/__init__.py)
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || date +%s)}"
export SOURCE_DATE_EPOCH
umask 022

wrong=()
agree() { # PLACE VERSION
  [ "$2" = "$version" ] || wrong+=("$1 says $2, exporter/__init__.py $version")
}
for key in version appVersion; do agree "Chart.yaml $key" "$(sed -n "s/^$key: *\"\?\([^\"]*\)\"\?$/\1/p" $chart/Chart.yaml)"; done
heading=$(grep -m1 '^## [0-9]' CHANGELOG.md || true)
agree CHANGELOG.md "$(echo "$heading" | cut -d' ' -f2)"
if [ -n "$tag" ]; then
  [ "$tag" = "v$version" ] || wrong+=("the tag is $tag, the version $version")
  [[ $heading =~ \([0-9]{4}-[0-9]{2}-[0-9]{2}\)$ ]] || wrong+=("CHANGELOG.md says '$heading', with no day (YYYY-MM-DD)")
fi
[ -z "$(ls -A "$out" 2>/dev/null)" ] || wrong+=("$out is not empty")
if [ ${#wrong[@]} != 0 ]; then
  printf 'release: %s\n' "${wrong[@]}" >&2
  exit 2
fi

pack() { # ARCHIVE TAR-ARGUMENT...: the same bytes for the same files
  tar --sort=name --format=gnu --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -c "${@:2}" |
    gzip -9n >"$out/$1"
}

mkdir -p "$out"
"$tools/python" -m hatchling build -d "$out" >/dev/null
deploy/package/build.sh "$out" "$out"/*.whl
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$tools/python" -B -m helm.pack "$scratch/gpu-exporter" # with rules and dashboards
pack "gpu-exporter-$version.tgz" --exclude={ci,README.md.tmpl} -C "$scratch" gpu-exporter
name=gpu-exporter-monitoring-$version # rules, dashboards, routes and runbooks, for users without the repository
mkdir "$scratch/kubernetes"
"$tools/python" -B -m helm.manifests "$scratch/gpu-exporter" "$scratch/kubernetes/monitoring.yaml"
pack "$name.tar.gz" --transform="s,^\(deploy/prometheus\|deploy\|docs\)/,,;s,^dashboards/json,dashboards,;s,^,$name/,S" \
  deploy/prometheus/rules/*.yaml dashboards/json/*.json deploy/alertmanager/*.* docs/runbooks/*.md \
  -C "$scratch" kubernetes/monitoring.yaml
(cd "$out" && sha256sum -- * >SHA256SUMS && du -h -- *)
