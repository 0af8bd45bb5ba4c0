"""The labels by which well-known projects mark the pods they make: what the work is called, and what kind it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Named(NamedTuple):
    """Name and kind of a workload by a label of its pods."""

    name: str
    kind: str


class _Project(NamedTuple):
    label: str
    """Its value is the name."""
    kind: str = ""
    kind_label: str = ""
    """Its value names the kind, where one label serves several."""


_PROJECTS = (
    _Project("serving.kserve.io/inferenceservice", "InferenceService"),
    _Project("ray.io/originated-from-cr-name", "RayCluster", "ray.io/originated-from-crd"),
    _Project("ray.io/cluster", "RayCluster"),
    _Project("leaderworkerset.sigs.k8s.io/name", "LeaderWorkerSet"),
    _Project("jobset.sigs.k8s.io/jobset-name", "JobSet"),
    _Project("training.kubeflow.org/job-name", "", "training.kubeflow.org/operator-name"),
    _Project("volcano.sh/job-name", "Job"),
    _Project("notebook-name", "Notebook"),
    _Project("sparkoperator.k8s.io/app-name", "SparkApplication"),
    _Project("dask.org/cluster-name", "DaskCluster"),
    _Project("kueue.x-k8s.io/pod-group-name", "PodGroup"),
    _Project("workflows.argoproj.io/workflow", "Workflow"),
    _Project("batch.kubernetes.io/job-name", "Job"),
    _Project("job-name", "Job"),
)
"""From the outermost to the innermost: a JobSet's pods carry the labels of its Jobs too."""

_OPERATORS = {
    "pytorchjob-controller": "PyTorchJob",
    "tfjob-controller": "TFJob",
    "mpijob-controller": "MPIJob",
    "mpi-operator": "MPIJob",
    "xgboostjob-controller": "XGBoostJob",
    "paddlejob-controller": "PaddleJob",
    "jaxjob-controller": "JAXJob",
}
TEMPLATE_HASH = "pod-template-hash"
"""What a Deployment's ReplicaSet adds to its name."""
JUPYTERHUB = "hub.jupyter.org/username"
"""On the pod that JupyterHub starts for each of its users; nothing else makes that pod."""
LABELS = (
    *(project.label for project in _PROJECTS),
    *(project.kind_label for project in _PROJECTS if project.kind_label),
    TEMPLATE_HASH,
    JUPYTERHUB,
)


def named(labels: Mapping[str, str]) -> Named | None:
    """By the outermost project whose label is there."""
    for project in _PROJECTS:
        name = labels.get(project.label)
        if name:
            kind = labels.get(project.kind_label, "")
            return Named(name, _OPERATORS.get(kind, kind if kind in _RAY else project.kind))
    return None


_RAY = ("RayCluster", "RayJob", "RayService")
