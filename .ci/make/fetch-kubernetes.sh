#!/usr/bin/env bash
# Everything a one-node cluster needs: containerd, runc, etcd and the CNI plugins from Debian, unpacked and not
# installed; Kubernetes, Helm, helm-diff and the Prometheus operator built from their Go modules. A quarter of an hour the
# first time.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD/.cache/kubernetes
bin=$root/bin
packages=(containerd runc etcd-server containernetworking-plugins libseccomp2)
kubernetes=v1.36.2 helm=v4.2.3 operator=v0.93.1
mkdir -p "$bin"

have() { [ -e "$root/$1" ]; }

if ! have debian/usr/bin/containerd; then
  echo "== Debian packages in $root: ${packages[*]}"
  mkdir -p "$root/debs"
  (cd "$root/debs" && { apt-get download -q "${packages[@]}" || { apt-get update -q && apt-get download -q "${packages[@]}"; }; }) > /dev/null
  for deb in "$root"/debs/*.deb; do dpkg-deb -x "$deb" "$root/debian"; done
  rm -r "$root/debs"
fi

command -v go > /dev/null || { echo "go 1.26 or newer is needed to build Kubernetes" >&2; exit 1; }
export CGO_ENABLED=0 GOFLAGS=-buildvcs=false GOBIN=$bin
version=k8s.io/component-base/version

if ! have bin/node; then
  echo "== Kubernetes $kubernetes from its modules (minutes)"
  (cd tests/e2e/kubernetes/node && nice go build -trimpath -o "$bin/node" \
    -ldflags "-s -w -X $version.gitVersion=$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=36" .)
fi
for part in kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl; do ln -sf node "$bin/$part"; done

if ! have bin/helm; then
  echo "== Helm $helm"
  nice go install "helm.sh/helm/v4/cmd/helm@$helm"
fi

if ! have crds; then
  module=github.com/prometheus-operator/prometheus-operator # `list` knows no directory before it is downloaded
  source=$(cd tests/e2e/kubernetes/operator && go mod download "$module" && go list -m -f '{{.Dir}}' "$module")
  mkdir -p "$root/crds.new"
  for kind in servicemonitors podmonitors prometheusrules prometheuses prometheusagents scrapeconfigs probes \
    alertmanagers alertmanagerconfigs thanosrulers; do
    cp "$source/example/prometheus-operator-crd/monitoring.coreos.com_$kind.yaml" "$root/crds.new/"
  done
  mv "$root/crds.new" "$root/crds"
fi

if ! have python/grpc; then
  echo "== grpcio, for the device plugin"
  .venv/bin/pip install -q --disable-pip-version-check --target "$root/python" grpcio==1.85.1
fi

if ! have bin/prometheus-operator; then
  echo "== Prometheus operator $operator"
  (cd tests/e2e/kubernetes/operator && nice go build -trimpath -ldflags "-s -w" -o "$bin/prometheus-operator" \
    github.com/prometheus-operator/prometheus-operator/cmd/operator)
fi

if ! have bin/helm-diff; then
  echo "== helm-diff"
  (cd tests/e2e/kubernetes/helm_diff && nice go build -ldflags "-s -w" -o "$bin/helm-diff" github.com/databus23/helm-diff/v3)
fi

if ! have bin/prometheus-adapter; then
  echo "== prometheus-adapter"
  (cd tests/e2e/kubernetes/adapter && nice go build -mod=mod -trimpath -ldflags "-s -w" -o "$bin/prometheus-adapter" \
    sigs.k8s.io/prometheus-adapter/cmd/adapter)
fi
