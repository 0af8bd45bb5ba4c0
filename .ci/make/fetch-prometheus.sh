#!/usr/bin/env bash
# fetch-prometheus.sh [DIR]: put prometheus, promtool, alertmanager and amtool into DIR/bin (default .cache/prometheus/bin).
#
# What is on the PATH and new enough is linked; the rest is unpacked, not installed, from Debian's packages, so no
# service starts. The one thing written outside DIR: Debian's Alertmanager opens its built-in message templates at
# /usr/share/prometheus/alertmanager and refuses to start without them, so they are copied there where they are
# missing (as root). Does nothing when all is there.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
dir=${1:-$root/.cache/prometheus}
templates=/usr/share/prometheus/alertmanager
programs=(prometheus promtool alertmanager amtool)
oldest=2.42 # keep_firing_for

complete() {
  local program
  for program in "${programs[@]}"; do [ -x "$dir/bin/$program" ] || return 1; done
  [ ! -e "$dir/unpacked" ] || [ -e "$templates/default.tmpl" ]
}

new_enough() { # Prometheus on the PATH is at least $oldest
  local version
  version=$(promtool --version 2>&1 | sed -n 's/.*version \([0-9.]*\).*/\1/p' | head -1)
  [ -n "$version" ] && [ "$(printf '%s\n' "$oldest" "$version" | sort -V | head -1)" = "$oldest" ]
}

on_path() {
  local program
  for program in "${programs[@]}"; do command -v "$program" >/dev/null || return 1; done
  new_enough
}

link_from_path() {
  local program
  for program in "${programs[@]}"; do ln -sf "$(command -v "$program")" "$dir/bin/$program"; done
}

unpack() {
  local work
  work=$(mktemp -d "$dir/unpack.XXXXXX")
  trap 'rm -rf "$work"' RETURN
  apt-cache show prometheus >/dev/null 2>&1 || apt-get update -q
  chmod 755 "$work" # apt drops its privileges to download
  (cd "$work" && apt-get download -q prometheus prometheus-alertmanager)
  for package in "$work"/*.deb; do dpkg-deb -x "$package" "$dir/unpacked"; done
  wrap prometheus prometheus
  wrap promtool promtool
  wrap alertmanager prometheus-alertmanager
  wrap amtool amtool
  [ -e "$templates/default.tmpl" ] || { mkdir -p "$templates" && cp "$dir/unpacked$templates"/*.tmpl "$templates/"; }
}

wrap() { ln -sf "$dir/unpacked/usr/bin/$2" "$dir/bin/$1"; }

mkdir -p "$dir/bin"
exec 9>"$dir/.lock"
flock 9 # two test workers may ask at once
complete && exit 0
if on_path; then link_from_path; else unpack; fi
complete || { echo "fetch-prometheus: still incomplete in $dir/bin" >&2; exit 1; }
"$dir/bin/promtool" --version | head -1
"$dir/bin/amtool" --version | head -1
