#!/usr/bin/env bash
# fetch-slurm.sh [DIR]: put Slurm's daemons and commands and munged into DIR (default .cache/slurm).
#
# Unpacked, not installed, from Debian's packages with whatever they need that is not here: no service starts, no user
# is made, nothing is written outside DIR. Programs are in DIR/unpacked/usr/{s,}bin and need DIR/unpacked's libraries.
# Does nothing when all is there, or when the release has no Slurm that is supported.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
dir=${1:-$root/.cache/slurm}
packages=(slurmctld slurmd slurm-client munge slurmdbd slurm-wlm-mysql-plugin mariadb-server-core libpam-slurm-adopt)
needed=(sbin/slurmctld sbin/slurmd sbin/slurmstepd sbin/slurmdbd bin/scontrol bin/sacct bin/sbatch bin/srun sbin/munged sbin/mariadbd)

complete() {
  local program
  for program in "${needed[@]}"; do [ -x "$dir/unpacked/usr/$program" ] || return 1; done
  [ -n "$(find "$dir/unpacked" -name pam_slurm_adopt.so)" ]
}

closure() { # names of the packages and of what they need and this machine lacks; parts of Slurm that it has are elsewhere
  awk 'BEGIN { RS = ""; ORS = "\n\n" } !/(^|\n)Source: (slurm-wlm|munge|mariadb)/ && !/^Package: munge\n/' /var/lib/dpkg/status >"$1"
  apt-get -o Dir::State::status="$1" install -qq -y --no-install-recommends --reinstall --print-uris "${packages[@]}" | sed -n "s/^'[^']*' \([^_]*\)_.*/\1/p"
}

unpack() {
  local work
  work=$(mktemp -d "$dir/unpack.XXXXXX")
  trap 'rm -rf "$work"' RETURN
  chmod 755 "$work" # apt drops its privileges to download
  # shellcheck disable=SC2046 # package names hold no blanks
  (cd "$work" && apt-get download -q $(closure "$work/installed"))
  for package in "$work"/*.deb; do dpkg-deb -x "$package" "$dir/unpacked"; done
  own_libraries "$work"
  # Slurm's programs behave by the name they are called by, and Debian's alternatives give it only when installed.
  for program in slurmctld slurmd slurmstepd; do ln -sf "$program-wlm" "$dir/unpacked/usr/sbin/$program"; done
}

own_libraries() { # Slurm 24 starts its daemons again for each script, without LD_LIBRARY_PATH
  local work=$1 libraries program
  (cd "$work" && apt-get download -q patchelf)
  dpkg-deb -x "$work"/patchelf_*.deb "$work/patchelf"
  libraries=$(cd "$dir/unpacked/usr/lib" && dirname */slurm-wlm/libslurmfull.so)
  for program in slurmctld slurmd slurmstepd; do
    "$work/patchelf/usr/bin/patchelf" --force-rpath --set-rpath "\$ORIGIN/../lib/$libraries:\$ORIGIN/../lib/${libraries%/*}" \
      "$dir/unpacked/usr/sbin/$program-wlm"
  done
}

nvml_plugin() { # AutoDetect=nvml is in Debian's contrib, which few machines have among their sources
  local work options folder
  folder=$(dirname "$(find "$dir/unpacked/usr/lib" -name gres_gpu.so)")
  work=$(mktemp -d "$dir/nvml.XXXXXX")
  trap 'rm -rf "$work"' RETURN
  chmod 755 "$work"
  mkdir -p "$work/parts" "$work/lists/partial"
  cat >"$work/parts/contrib.sources" <<SOURCES
Types: deb
URIs: http://deb.debian.org/debian
Suites: $(. /etc/os-release && echo "$VERSION_CODENAME")
Components: contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
SOURCES
  options=(-o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$work/parts" -o "Dir::State::Lists=$work/lists")
  options+=(-o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root)
  (cd "$work" && apt-get "${options[@]}" -qq update && apt-get "${options[@]}" -qq download slurm-wlm-nvml-plugin) &&
    dpkg-deb -x "$work"/*.deb "$work/package" && cp "$work"/package/usr/lib/*/slurm-wlm/gpu_nvml.so "$folder" && return
  echo "fetch-slurm: no slurm-wlm-nvml-plugin to be had: tests/e2e/test_slurm_mig.py is left out" >&2
}

mkdir -p "$dir"
exec 9>"$dir/.lock"
flock 9 # two test workers may ask at once
if ! complete; then
  apt-cache show slurmctld >/dev/null 2>&1 || apt-get update -q
  version=$(apt-cache show --no-all-versions slurmctld | sed -n 's/^Version: //p') # fails where no lists can be had
  if dpkg --compare-versions "$version" lt 22.05; then # as in Ubuntu 22.04
    echo "fetch-slurm: Slurm $version is older than 22.05: tests on a real Slurm are left out" >&2
    exit 0
  fi
  unpack
  complete || { echo "fetch-slurm: still incomplete in $dir" >&2; exit 1; }
  echo "Slurm unpacked in $dir"
fi
[ -e "$dir/.nvml" ] || nvml_plugin
touch "$dir/.nvml" # asked for once: a machine that cannot reach it is not to wait for it each time
