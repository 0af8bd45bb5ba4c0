# Sourced: fetch Debian or Ubuntu packages as any user, without installing them and without writing outside the checkout.
#
#   apt_download FOLDER PACKAGE...   the .deb files of these packages into FOLDER
#   apt_depends PACKAGE              the names it depends on directly
#
# Where this machine has no package lists (a bare image), they are fetched into .cache/apt.
# shellcheck shell=bash

apt_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
apt_options=(-o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=) # root's apt would write them to /var/cache
apt_chosen=

_apt_own_lists() {
  local state=$apt_root/.cache/apt
  mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
  chmod 755 "$state" "$state/lists" "$state/lists/partial" "$state/cache" "$state/cache/archives" "$state/cache/archives/partial"
  apt_options+=(
    -o "Dir::State::Lists=$state/lists" -o "Dir::Cache=$state/cache" -o Dir::State::Status=/var/lib/dpkg/status
    -o Dir::Log=/dev/null -o Debug::NoLocking=1 -o "APT::Sandbox::User=$(id -un)" -o Acquire::Languages=none
  )
}

_apt_ready() {
  command -v apt-get >/dev/null || { echo "apt-get is missing: this needs Debian or Ubuntu, or the programs on the PATH" >&2; return 1; }
  [ -z "$apt_chosen" ] || return 0
  apt_chosen=yes
  apt-cache "${apt_options[@]}" show "$1" >/dev/null 2>&1 && return 0
  _apt_own_lists
  apt-cache "${apt_options[@]}" show "$1" >/dev/null 2>&1 && return 0
  echo "   package lists into .cache/apt"
  apt-get "${apt_options[@]}" -qq update
}

apt_depends() {
  _apt_ready "$1" >&2
  apt-cache "${apt_options[@]}" depends "$1" | sed -n 's/^ *Depends: \([^<].*\)/\1/p'
}

apt_download() {
  local folder=$1
  shift
  _apt_ready "$1"
  (cd "$folder" && apt-get "${apt_options[@]}" -q=2 -o "APT::Sandbox::User=$(id -un)" download "$@")
}
