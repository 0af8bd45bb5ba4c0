# Sourced: fetch Debian or Ubuntu packages as any user, without installing them and without writing outside the checkout.
#
#   apt_download FOLDER PACKAGE...   the .deb files of these packages into FOLDER
#   apt_depends PACKAGE              the names it depends on directly
#   apt_version PACKAGE              the version apt would download; fails when the release has no such package
#   apt_at_least PACKAGE VERSION     from here on, packages of a release that has it this new; fails, with one line, where none is known
#
# Where this machine has no package lists (a bare image), they are fetched into .cache/apt.
# shellcheck shell=bash

apt_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
apt_options=(-o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=) # root's apt would write them to /var/cache
apt_chosen=

_apt_own_lists() {
  local state=$1
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
  _apt_own_lists "$apt_root/.cache/apt"
  apt-cache "${apt_options[@]}" show "$1" >/dev/null 2>&1 && return 0
  echo "   package lists into .cache/apt"
  apt-get "${apt_options[@]}" -qq update
}

apt_depends() {
  _apt_ready "$1" >&2
  apt-cache "${apt_options[@]}" depends "$1" | sed -n 's/^ *Depends: \([^<].*\)/\1/p'
}

apt_version() {
  _apt_ready "$1" >&2
  apt-cache "${apt_options[@]}" show --no-all-versions "$1" 2>/dev/null | sed -n 's/^Version: //p'
}

apt_at_least() { # Ubuntu 22.04 borrows from 24.04, whose programs run on it
  local version
  _apt_ready "$1" # here, for apt_version has a shell of its own
  version=$(apt_version "$1")
  at_least "$2" "$version" || _apt_release jammy noble || { echo "$1 $2 or newer is needed, apt has $version" >&2; return 1; }
}

at_least() { # OLDEST VERSION
  [ -n "$2" ] && [ "$(printf '%s\n' "$1" "$2" | sort -V | head -1)" = "$1" ]
}

_apt_release() { # FROM TO; signed by the same distribution: what this machine trusts is left as it is
  local lists=$apt_root/.cache/apt-$2 sources
  # shellcheck disable=SC2016 # apt's variables, not the shell's
  sources=$(apt-get "${apt_options[@]}" indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' "Codename: $1" "Created-By: Packages")
  [ -n "$sources" ] || return 1
  _apt_own_lists "$lists"
  echo "${sources// $1/ $2}" | sort -u >"$lists/sources.list"
  apt_options+=(-o "Dir::Etc::SourceList=$lists/sources.list" -o Dir::Etc::SourceParts=/dev/null)
  echo "   package lists of $2 into .cache/apt-$2"
  apt-get "${apt_options[@]}" -qq update
}

apt_download() {
  local folder=$1
  shift
  _apt_ready "$1"
  (cd "$folder" && apt-get "${apt_options[@]}" -q=2 -o "APT::Sandbox::User=$(id -un)" download "$@")
}
