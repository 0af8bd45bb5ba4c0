#!/usr/bin/env bash
# The definitions (CRDs) of the kinds of workloads that tests/e2e/kubernetes/kinds.py makes, from the projects' Go modules.
set -euo pipefail
cd "$(dirname "$0")/../.."
to=$PWD/.cache/kubernetes/kinds
[ ! -e "$to/keda.sh_scaledobjects.json" ] || exit 0
rm -rf "$to.new" && mkdir -p "$to.new"

crds() { # MODULE@VERSION FILE…, below its directory
  local source
  source=$(go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  echo "== $1"
  (cd "$source" && cp --no-preserve=mode "${@:2}" "$to.new/")
}
crds sigs.k8s.io/jobset@v0.10.1 config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml
crds sigs.k8s.io/lws@v0.7.0 config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml
crds github.com/kubeflow/training-operator@v1.8.1 manifests/base/crds/kubeflow.org_pytorchjobs.yaml
crds github.com/kubeflow/mpi-operator@v0.6.0 manifests/base/kubeflow.org_mpijobs.yaml
crds github.com/kubeflow/trainer/v2@v2.0.0 manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml
crds github.com/ray-project/kuberay/ray-operator@v1.4.2 config/crd/bases/ray.io_ray{clusters,jobs,services}.yaml
crds github.com/kserve/kserve@v0.15.2 config/crd/full/serving.kserve.io_inferenceservices.yaml
crds knative.dev/serving@v0.42.2 config/core/300-resources/{service,configuration,revision}.yaml
crds github.com/kedacore/keda/v2@v2.17.2 config/crd/bases/keda.sh_scaledobjects.yaml
crds volcano.sh/volcano@v1.10.0 config/crd/volcano/bases/batch.volcano.sh_jobs.yaml
# Without the descriptions of fields and what they copy of a pod's own definition, which cost the API server minutes.
.venv/bin/python - "$to.new" << "END"
import json, pathlib, sys
import yaml

OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

def bare(value, names=False):
    if isinstance(value, list):
        return [bare(each) for each in value]
    if not isinstance(value, dict):
        return value
    if not names and "containers" in (value.get("properties") or ()):
        return OPEN
    kept = {key: each for key, each in value.items() if names or key != "description"}
    return {key: bare(each, key == "properties" and not names) for key, each in kept.items()}

for path in pathlib.Path(sys.argv[1]).glob("*.yaml"):
    found = yaml.load(path.read_text(), yaml.CSafeLoader)
    path.with_suffix(".json").write_text(json.dumps(bare(found)))
    path.unlink()
END
rm -rf "$to" && mv "$to.new" "$to"
