"""The kinds of objects that pods belong to, and their resources in the API."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.attribution.kubernetes.pod import Reference

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
