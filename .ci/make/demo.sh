#!/usr/bin/env bash
# demo.sh [OPTION...]: everything `make demo` needs, then the demo itself.
#
# Works as root or not. All it writes is below .cache of the checkout: a Python environment with the exporter's own
# dependencies only, and Prometheus and Alertmanager; and the runbooks. The second time nothing is fetched.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
env=.cache/demo/python
python=${PYTHON:-python3}
requirements=(deploy/container/requirements.txt deploy/demo/requirements.txt)
export PYTHONUNBUFFERED=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_CACHE_DIR=1

missing() {
  echo "demo: $1 is missing: install it with: apt-get install $2" >&2
  exit 1
}

has_pip() { "$1" -c 'import ensurepip, pip' 2>/dev/null || "$1" -c 'import ensurepip' 2>/dev/null; }

# shellcheck source=.ci/make/apt.sh
. .ci/make/apt.sh

borrowed_pip() { # Debian's own wheel of pip, for a Python without ensurepip; 22.3 knows --python
  local work=.cache/demo/pip
  mkdir -p "$work" && chmod 755 .cache .cache/demo "$work"
  { apt_at_least python3-pip-whl 22.3 && apt_download "$work" python3-pip-whl ca-certificates; } >/dev/null 2>&1 || missing python3-venv python3-venv
  for package in "$work"/*.deb; do dpkg-deb -x "$package" "$work"; done
  cat "$work"/usr/share/ca-certificates/mozilla/*.crt >"$work/ca.crt"
  echo "$work"
}

install_python() {
  local pip work
  rm -rf "$env"
  if has_pip "$python"; then
    "$python" -m venv "$env"
    pip=("$env/bin/python" -m pip)
  else
    work=$(borrowed_pip)
    "$python" -m venv --without-pip "$env"
    pip=("$python" "$(echo "$work"/usr/share/python-wheels/pip-*.whl)/pip" --python "$env/bin/python")
    [ -e /etc/ssl/certs/ca-certificates.crt ] || export PIP_CERT=$root/$work/ca.crt
  fi
  .ci/make/pip.sh "${pip[@]}" install --progress-bar off --only-binary :all: --require-hashes "${requirements[@]/#/-r}" |
    grep -E --line-buffered '^ *(Downloading|Installing)' | sed -u 's/^\(.\{0,100\}\).*/   \1/'
  rm -rf .cache/demo/pip
  sha256sum "${requirements[@]}" >"$env/made-from"
}

command -v "$python" >/dev/null || missing Python python3
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "demo: $python is $("$python" -V 2>&1): 3.10 or newer is needed" >&2; exit 1; }
"$python" -c 'import venv' 2>/dev/null || missing "Python's venv" python3-venv
[ -w . ] || { echo "demo: $root cannot be written by $(id -un): clone it where you may write" >&2; exit 1; }
sha256sum --status -c "$env/made-from" 2>/dev/null || { echo "== Python packages of the exporter into $env"; install_python; }
if [ ! -x .cache/prometheus/bin/prometheus ]; then echo "== Prometheus and Alertmanager into .cache/prometheus (about 50 MB)"; fi
WITHOUT_SECOND=1 .ci/make/fetch-prometheus.sh
"$env/bin/python" -B -m deploy.prometheus.pages
PYTHONDONTWRITEBYTECODE=1 exec "$env/bin/python" -m deploy.demo.demo "$@"
