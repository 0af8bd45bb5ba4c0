"""Projects that make pods: kinds of their objects, labels and names of their pods."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple


class Reference(NamedTuple):
    """Object in an owner reference."""

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
    "flyte.lyft.com": {"flyteworkflow": "flyteworkflows"},
    "grove.io": {
        "PodClique": "podcliques", "PodCliqueScalingGroup": "podcliquescalinggroups", "PodCliqueSet": "podcliquesets",
    },
    "actions.github.com": {
        "EphemeralRunner": "ephemeralrunners", "EphemeralRunnerSet": "ephemeralrunnersets",
        "AutoscalingRunnerSet": "autoscalingrunnersets",
    },
}  # fmt: skip
"""Kinds and their resources by API group. The chart's role allows to get them."""


def group(reference: Reference) -> str:
    return reference.version.partition("/")[0]


def resource(reference: Reference) -> str:
    """Return the resource of a kind; empty for an unknown one."""
    return KINDS.get(group(reference), {}).get(reference.kind, "")


class LabelledWorkload(NamedTuple):
    """Name and kind of a workload by a label of its pods."""

    name: str
    kind: str


class _Project(NamedTuple):
    label: str
    """Label with the name."""
    kind: str = ""
    kind_label: str = ""
    """Label with the kind, if one label serves several."""
    beside: str = ""
    """Label that the project's own pods have as well, where other programs use the first one too."""
    value: str = ""
    """Value of that label; empty is any."""

    def name(self, labels: Mapping[str, str]) -> str:
        """Return the name of the workload that made a pod with these labels; empty if the project made none."""
        beside = labels.get(self.beside, "")
        made = not self.beside or (beside == self.value if self.value else bool(beside))
        return labels.get(self.label, "") if made else ""


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
    _Project("spark-app-selector", "SparkApplication"),
    _Project("dask.org/cluster-name", "DaskCluster"),
    _Project(
        "app.kubernetes.io/part-of", "PodCliqueSet", beside="app.kubernetes.io/managed-by", value="grove-operator"
    ),
    _Project("actions.github.com/scale-set-name", "AutoscalingRunnerSet"),
    _Project("runner-deployment-name", "RunnerDeployment"),
    _Project("skypilot-cluster-name", "SkyPilotCluster"),
    _Project("skypilot-cluster", "SkyPilotCluster"),
    _Project("dag_id", "DAG", beside="airflow_version"),
    _Project("kueue.x-k8s.io/pod-group-name", "PodGroup"),
    _Project("workflows.argoproj.io/workflow", "Workflow"),
    _Project("batch.kubernetes.io/job-name", "Job"),
    _Project("job-name", "Job"),
)
"""Projects from the outermost to the innermost: a JobSet's pods have the labels of its Jobs too."""

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
"""Label with the ending of the name of a Deployment's ReplicaSet."""
JUPYTERHUB = "hub.jupyter.org/username"
"""Label of the pod that JupyterHub itself starts for a user."""
LABELS = (
    *(project.label for project in _PROJECTS),
    *(label for project in _PROJECTS for label in (project.kind_label, project.beside) if label),
    TEMPLATE_HASH,
    JUPYTERHUB,
)


def named(labels: Mapping[str, str]) -> LabelledWorkload | None:
    """Return the workload by the label of the outermost project."""
    for project in _PROJECTS:
        if name := project.name(labels):
            kind = labels.get(project.kind_label, "")
            return LabelledWorkload(name, _OPERATORS.get(kind, kind if kind in _RAY_LABEL else project.kind))
    return None


_RAY_LABEL = ("RayCluster", "RayJob", "RayService")
_RANDOM = "-(?![0-9]{5})[bcdfghjklmnpqrstvwxz2456789]{5}"
"""Ending that the API server adds for `generateName`: no vowels and no digits that look like letters.

Five digits do not count: only one ending in 850 has digits alone, and people number their runs.
"""
_HASH = "-[4-9bcdf]{6,10}"
"""A ReplicaSet's hash: a decimal number in that alphabet, which leaves ten letters."""


class Guess(NamedTuple):
    """Workload by a pod's name. `part_of` is its whole, as `Kind/name`; an empty kind is unknown."""

    name: str
    kind: str = ""
    part_of: str = ""


_CRON = re.compile(r"(?P<cron>.+)-[0-9]{8,10}")
_KSERVE = "-(?:predictor|transformer|explainer)(?:-default)?(?:-[0-9]{5}-deployment)?"
_MADE_CLUSTER = f"(?:(?:-raycluster)?{_RANDOM})?"
"""Ending of a cluster that KubeRay makes for a RayJob or RayService: without the word since 1.4."""
_RAY = f"{_MADE_CLUSTER}(?:-head|(?:-[a-z]*|-[a-z]+-)group(?:-[0-9]+)?-worker){_RANDOM}"
"""Groups are called `workergroup` or `gpu-group`: a word before the former is the end of the cluster's own name."""
_CLUSTER = re.compile(f"(?P<name>.+?){_MADE_CLUSTER}")
_PATTERNS = tuple(
    (kind, re.compile(f"(?P<name>{name}){rest}"))
    for kind, name, rest in (
        ("InferenceService", ".+", f"{_KSERVE}{_HASH}{_RANDOM}"),
        ("Deployment", ".+", f"{_HASH}{_RANDOM}"),
        ("RayCluster", ".+?", _RAY),
        ("MPIJob", ".+", f"-launcher{_RANDOM}"),
        ("SparkApplication", ".+-[0-9a-f]{16}", "-(?:driver|exec-[0-9]{1,6})"),
        ("Job", ".+-[0-9]{8,10}", _RANDOM),
        ("", ".+", _RANDOM),
        ("", ".{58}", _RANDOM.removeprefix("-")),  # as much as the API server keeps of a longer name
    )
)
"""The first that fits counts. A random end alone is a Job's, a DaemonSet's or somebody's own `generateName`."""


def guess(pod: str) -> Guess:
    """Return the workload of a pod by its name alone. A pod that no pattern fits is its own workload.

    Only endings that a controller or the API server generates are removed. A number at the end is kept: people write
    `llama-2` and `llama-3` themselves, and a StatefulSet's pods look the same.
    """
    for kind, pattern in _PATTERNS:
        if match := pattern.fullmatch(pod):
            return Guess(match["name"], kind, whole(match["name"]) if kind == "Job" else "")
    return Guess(pod, "Pod")


def of_ray_cluster(cluster: str) -> str:
    """Return the RayJob or RayService for which a RayCluster of that name seems to be made; else the cluster."""
    match = _CLUSTER.fullmatch(cluster)
    return match["name"] if match else cluster


def whole(job: str) -> str:
    """Return the CronJob of a Job of that name, which ends with a minute; else empty."""
    match = _CRON.fullmatch(job)
    return f"CronJob/{match['cron']}" if match else ""
