"""Well-known projects that make pods: the kinds of their objects, the labels and the names of their pods."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Reference(NamedTuple):
    """The object that made another one, as an owner reference names it."""

    version: str
    """`apps/v1`: API group and version."""
    kind: str
    name: str
    uid: str = ""


KINDS: Mapping[str, Mapping[str, str]] = {
    "apps": {
        "ReplicaSet": "replicasets", "Deployment": "deployments", "StatefulSet": "statefulsets",
        "DaemonSet": "daemonsets",
    },
    "batch": {"Job": "jobs", "CronJob": "cronjobs"},
    "jobset.x-k8s.io": {"JobSet": "jobsets"},
    "leaderworkerset.x-k8s.io": {"LeaderWorkerSet": "leaderworkersets"},
    "kubeflow.org": {
        "PyTorchJob": "pytorchjobs", "MPIJob": "mpijobs", "TFJob": "tfjobs", "XGBoostJob": "xgboostjobs",
        "PaddleJob": "paddlejobs", "JAXJob": "jaxjobs", "Notebook": "notebooks",
    },
    "trainer.kubeflow.org": {"TrainJob": "trainjobs"},
    "ray.io": {"RayCluster": "rayclusters", "RayJob": "rayjobs", "RayService": "rayservices"},
    "serving.kserve.io": {"InferenceService": "inferenceservices", "LLMInferenceService": "llminferenceservices"},
    "serving.knative.dev": {"Revision": "revisions", "Configuration": "configurations", "Service": "services"},
    "batch.volcano.sh": {"Job": "jobs"},
    "argoproj.io": {"Workflow": "workflows", "Rollout": "rollouts"},
}  # fmt: skip
"""By API group: kinds and their resources, which the chart's role allows to get."""


def group(reference: Reference) -> str:
    return reference.version.partition("/")[0]


def resource(reference: Reference) -> str:
    """Empty for a kind that is not known here."""
    return KINDS.get(group(reference), {}).get(reference.kind, "")


def known(reference: Reference) -> bool:
    return bool(resource(reference))


class LabelledWorkload(NamedTuple):
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


def named(labels: Mapping[str, str]) -> LabelledWorkload | None:
    """By the outermost project whose label is there."""
    for project in _PROJECTS:
        name = labels.get(project.label)
        if name:
            kind = labels.get(project.kind_label, "")
            return LabelledWorkload(name, _OPERATORS.get(kind, kind if kind in _RAY_LABEL else project.kind))
    return None


_RAY_LABEL = ("RayCluster", "RayJob", "RayService")


_RANDOM = "-(?![0-9]{5})[bcdfghjklmnpqrstvwxz2456789]{5}"
"""What the API server appends for `generateName`: no vowels and no digits that look like letters.

Five digits are no such ending: one random ending in 850 has digits only, and people number their runs.
"""
_HASH = "-[4-9bcdf]{6,10}"
"""A ReplicaSet's hash: a decimal number in that alphabet, which leaves ten letters."""


class Guess(NamedTuple):
    """`part_of` is the whole it is a part of, as `Kind/name`; an empty kind: the name does not show it."""

    name: str
    kind: str = ""
    part_of: str = ""


class _Pattern(NamedTuple):
    kind: str
    pod: re.Pattern[str]


_CRON = re.compile(r"(?P<cron>.+)-[0-9]{8,10}")
_KSERVE = "-(?:predictor|transformer|explainer)(?:-default)?(?:-[0-9]{5}-deployment)?"
_MADE_CLUSTER = f"(?:(?:-raycluster)?{_RANDOM})?"
"""What KubeRay adds to the name of a RayJob or RayService for its cluster: without the word since 1.4."""
_RAY = f"{_MADE_CLUSTER}(?:-head|(?:-[a-z]*|-[a-z]+-)group(?:-[0-9]+)?-worker){_RANDOM}"
"""Groups are called `workergroup` or `gpu-group`: a word before the former is the end of the cluster's own name."""
_CLUSTER = re.compile(f"(?P<name>.+?){_MADE_CLUSTER}")
_PATTERNS = tuple(
    _Pattern(kind, re.compile(f"(?P<name>{name}){rest}"))
    for kind, name, rest in (
        ("InferenceService", ".+", f"{_KSERVE}{_HASH}{_RANDOM}"),
        ("Deployment", ".+", f"{_HASH}{_RANDOM}"),
        ("RayCluster", ".+?", _RAY),
        ("MPIJob", ".+", f"-launcher{_RANDOM}"),
        ("SparkApplication", ".+-[0-9a-f]{16}", "-(?:driver|exec-[0-9]{1,6})"),
        ("Job", ".+-[0-9]{8,10}", _RANDOM),
        ("", ".+", _RANDOM),
    )
)
"""The first that fits counts. A random end alone is a Job's, a DaemonSet's or somebody's own `generateName`."""


def guess(pod: str) -> Guess:
    """Return the workload of a pod by its name alone. A pod that no pattern fits is its own workload.

    Only endings that a controller or the API server generates are removed. A number at the end is kept: people write
    `llama-2` and `llama-3` themselves, and a StatefulSet's pods look the same.
    """
    return next(_guesses(pod), Guess(pod))


def _guesses(pod: str) -> Iterator[Guess]:
    for kind, pattern in _PATTERNS:
        match = pattern.fullmatch(pod)
        if match:
            name = match["name"]
            yield Guess(name, kind, whole(name) if kind == "Job" else "")


def of_ray_cluster(cluster: str) -> str:
    """The RayJob or RayService that a RayCluster of that name seems to be made for; else the cluster."""
    match = _CLUSTER.fullmatch(cluster)
    return match["name"] if match else cluster


def whole(job: str) -> str:
    """The CronJob that a Job of that name is a run of: it appends its minute."""
    match = _CRON.fullmatch(job)
    return f"CronJob/{match['cron']}" if match else ""
