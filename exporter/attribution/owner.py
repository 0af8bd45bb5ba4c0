"""The owner of GPU time, and the labels every owner series carries."""

from __future__ import annotations

from dataclasses import fields

from exporter.record import record


@record
class Owner:
    """One workload. An empty field does not apply or is not known; all empty is nobody known.

    `workload` is one printable id: `namespace/name` of what owns the pod, `slurm:12345`, `nomad:default/train`,
    `docker:name`, `compose:project/service`, `unit:jupyter.service`, `process:python3`. The pods of one workload are
    owners each. Where Slurm runs inside Kubernetes both the job and the pod are filled.
    """

    workload: str = ""
    kind: str = ""
    namespace: str = ""
    pod: str = ""
    container: str = ""
    slurm_job: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""

    def __hash__(self) -> int:
        """Of what tells nearly all owners apart: two texts keep their hashes, and a pass asks thousands of times."""
        return hash(self.workload) ^ hash(self.pod)

    @property
    def labels(self) -> tuple[str, ...]:
        """Label values in the order of OWNER_LABELS."""
        return (
            self.workload,
            self.kind,
            self.namespace,
            self.pod,
            self.container,
            self.slurm_job,
            self.user,
            self.account,
            self.partition,
        )


OWNER_LABELS = tuple(field.name for field in fields(Owner))
NOBODY = Owner()
