#!/usr/bin/env bash
# chart-testing (`ct lint`) on the chart with each of its profiles; ct and Helm are built from their Go modules.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD/.cache/chart-testing
ct=github.com/helm/chart-testing/v3@v3.14.0 helm=helm.sh/helm/v4/cmd/helm@v4.2.3
export CGO_ENABLED=0 GOFLAGS=-buildvcs=false GOBIN=$root/bin
command -v go > /dev/null || { echo "go 1.26 or newer is needed to build chart-testing" >&2; exit 1; }

if ! [ -e "$root/bin/ct" ]; then
  echo "== chart-testing, Helm, yamllint and yamale in $root"
  rm -rf "$root" && mkdir -p "$root/bin"
  cp -r --no-preserve=mode "$(go mod download -json "$ct" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')" "$root/source"
  nice go install "$helm"
  python3 -m venv "$root/python"
  "$root/python/bin/pip" install -q --disable-pip-version-check yamllint==1.37.1 yamale==6.0.0
  (cd "$root/source" && nice go build -mod=mod -trimpath -ldflags "-s -w" -o "$root/bin/ct" ./ct)
fi

# No version to compare with, and no account of a maintainer to look up: neither is in a checkout.
PATH=$root/bin:$root/python/bin:$PATH exec ct lint --charts helm/gpu-exporter \
  --check-version-increment=false --validate-maintainers=false \
  --chart-yaml-schema "$root/source/etc/chart_schema.yaml" --lint-conf "$root/source/etc/lintconf.yaml"
