#!/usr/bin/env bash
# fetch-prometheus.sh [DIR]: put prometheus, promtool, alertmanager and amtool into DIR/bin (default .cache/prometheus/bin),
# and from Debian's package victoria-metrics the second evaluator of the rules: victoria-metrics and vmalert.
#
# What is on the PATH and new enough is linked; the rest is unpacked, not installed, from Debian's packages: no service
# starts, nothing is written outside DIR and .cache, and no rights are needed. Debian's builds look for their pages
# and message templates under /usr/share/prometheus; in the copies here that path is made relative (one byte), and the
# programs are started in the folder it leads from. Does nothing when all is there.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
dir=${1:-$root/.cache/prometheus}
programs=(prometheus promtool alertmanager amtool)
second=(victoria-metrics vmalert)
[ -z "${WITHOUT_SECOND:-}" ] || second=() # the demo shows one Prometheus
oldest=2.42 # keep_firing_for
layout=2    # of what is unpacked: one of an older script is made anew

# shellcheck source=.ci/make/apt.sh
. "$root/.ci/make/apt.sh"

complete() {
  local program
  for program in "${programs[@]}" "${second[@]}"; do [ -x "$dir/bin/$program" ] || return 1; done
  [ ! -e "$dir/unpacked" ] || [ "$(cat "$dir/layout" 2>/dev/null)" = "$layout" ]
}

on_path() {
  local program
  for program in "${programs[@]}"; do
    case $(command -v "$program") in '' | "$dir"/*) return 1 ;; esac
  done
  at_least $oldest "$(promtool --version 2>&1 | sed -n 's/.*version \([0-9.]*\).*/\1/p' | head -1)"
}

own_packages() { # the programs that have a package of their own name here; elsewhere another package brings them
  local program
  for program in "$@"; do
    if apt_version "$program" >/dev/null; then echo "$program"; fi
  done
}

anew() { # nothing of an older script or of another machine stays
  rm -rf "${dir:?}/unpacked" "${dir:?}/bin" && mkdir -p "$dir/bin"
  echo "$layout" >"$dir/layout"
}

link_from_path() {
  local program
  anew
  for program in "${programs[@]}"; do ln -sf "$(command -v "$program")" "$dir/bin/$program"; done
}

pages() { # the scripts and fonts that Prometheus' pages need
  apt_depends prometheus | grep -E '^(libjs-|fonts-)' || true
  apt_depends libjs-rickshaw | grep -E '^libjs-' || true
}

unpack() {
  local work package names
  work=$(mktemp -d "$dir/unpack.XXXXXX")
  trap 'rm -rf "$work"' RETURN
  chmod 755 "$work"
  anew
  mapfile -t names < <({ echo prometheus; own_packages "${programs[@]}"; pages; } | sort -u)
  apt_download "$work" prometheus-alertmanager "${names[@]}"
  for package in "$work"/*.deb; do dpkg-deb -x "$package" "$dir/unpacked"; done
  rm -rf "$dir/unpacked/usr/share/javascript/moment-timezone/data" # 216 MB that no page asks for
  relocate prometheus prometheus
  classic_pages
  relocate alertmanager prometheus-alertmanager
  ln -s ../unpacked/usr/bin/promtool ../unpacked/usr/bin/amtool "$dir/bin/"
}

classic_pages() { # Debian 13 serves a note at /graph and the pages below /classic
  local note=$dir/unpacked/usr/share/prometheus/web/no-ui/index.html
  [ ! -e "$note" ] || sed -i 's#<head>#<head><script>location.replace("/classic" + location.pathname + location.search)</script>#' "$note"
}

unpack_second() {
  local work package program names
  work=$(mktemp -d "$dir/unpack.XXXXXX")
  trap 'rm -rf "$work"' RETURN
  chmod 755 "$work"
  mapfile -t names < <(own_packages "${second[@]}")
  apt_download "$work" "${names[@]}"
  for package in "$work"/*.deb; do dpkg-deb -x "$package" "$dir/unpacked"; done
  for program in "${second[@]}"; do ln -sfn "../unpacked/usr/bin/$program" "$dir/bin/$program"; done
}

relocate() { # a program whose data path is relative to the folder it is started in
  local file=$dir/unpacked/usr/bin/$2
  ln -sfn usr "$dir/unpacked/.usr"
  LC_ALL=C sed -i 's#/usr/share/prometheus/#.usr/share/prometheus/#g' "$file"
  cat >"$dir/bin/$1" <<END
#!/bin/sh
# $1 as Debian built it, started where it finds its pages and templates: give it absolute paths.
cd "\$(dirname "\$(readlink -f "\$0")")/../unpacked" && exec usr/bin/$2 "\$@"
END
  chmod 755 "$dir/bin/$1"
}

mkdir -p "$dir/bin"
exec 9>"$dir/.lock"
flock 9 # two test workers may ask at once
complete && exit 0
if on_path; then link_from_path; else apt_at_least prometheus $oldest; unpack; fi
[ ${#second[@]} = 0 ] || unpack_second
complete || { echo "fetch-prometheus: still incomplete in $dir/bin" >&2; exit 1; }
"$dir/bin/promtool" --version | head -1
"$dir/bin/amtool" --version | head -1
