#!/usr/bin/env bash
# Flux's helm-controller as released, with the versions it names, from its Go module, and the definitions (CRDs) of Flux.
# Seven minutes the first time.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD/.cache/kubernetes
flux=github.com/fluxcd
export CGO_ENABLED=0 GOFLAGS=-buildvcs=false

module() { go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'; }

if ! [ -e "$root/flux-crds" ]; then
  mkdir -p "$root/flux-crds.new"
  for part in helm-controller@v1.4.0 source-controller@v1.7.0; do
    cp --no-preserve=mode "$(module "$flux/$part")"/config/crd/bases/*.yaml "$root/flux-crds.new/"
  done
  mv "$root/flux-crds.new" "$root/flux-crds"
fi

if ! [ -e "$root/bin/helm-controller" ]; then
  echo "== Flux's helm-controller"
  # A copy is the main module, so that its own replacements count; the one that points beside it means that module.
  source=$root/helm-controller
  rm -rf "$source"
  cp -r --no-preserve=mode "$(module $flux/helm-controller@v1.4.0)" "$source"
  (cd "$source" \
    && go mod edit -replace $flux/helm-controller/api=$flux/helm-controller/api@v1.4.0 \
    && nice go build -mod=mod -trimpath -ldflags "-s -w -X main.VERSION=v1.4.0" -o "$root/bin/helm-controller" .)
  rm -r "$source"
fi
