"""The owner of GPU time, and the labels every owner series carries."""

from __future__ import annotations

import re
from typing import NamedTuple

_DAEMONS = (
    r"crond?|atd|condor|pbs(?:_jobs|_mom)?|torque-mom|lsfd|sge_?execd(?:\..+)?|gridengine-exec|supervisord?"
    r"|gitlab-runner|actions\.runner\..+"
)
"""They start what has nothing to do with each other: cron; HTCondor, PBS, LSF and Grid Engine, whose jobs are not told
apart; supervisors of programs; runners of tests."""
_SHARED = re.compile(rf"unit:(?:[^/]+/)?(?:init\.scope|(?:sshd?|{_DAEMONS})\.service)$")
"""Units in which several people start whatever they like."""
_PLACES = re.compile(
    rf"{_SHARED.pattern}|unit:(?:[^/]+/)?(?:(?:session|tmux-spawn|vte-spawn)-.+\.scope|(?:user@.+|sshd?@.+)\.service)$"
)
"""And those in which one does."""


class Owner(NamedTuple):
    """One workload, in the order of its labels: a plain tuple, since a pass looks owners up a thousand times.

    An empty field does not apply or is not known; all empty is nobody known.

    `workload` is one printable id: `namespace/name` of what owns the pod, `slurm:12345`, `nomad:default/train`,
    `docker:name`, `compose:project/service`, `unit:jupyter.service`, `process:ada/python3`. The pods of one workload
    are owners each. Where Slurm runs inside Kubernetes both the job and the pod are filled.
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

    @property
    def labels(self) -> tuple[str, ...]:
        """Label values in the order of OWNER_LABELS."""
        return self

    @property
    def pod_name(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.pod

    @property
    def one_work(self) -> bool:
        """Not so of programs that have a name and a user, or a login session, a terminal or cron, in common."""
        return self.kind != "process" and not (self.kind == "unit" and _PLACES.match(self.workload))

    @property
    def shares_place(self) -> bool:
        """Its cgroup has other people's programs in it, whether or not they are on a GPU."""
        return self.kind == "unit" and bool(_SHARED.match(self.workload))


OWNER_LABELS = Owner._fields
NOBODY = Owner()


EXACT, INFERRED, LOW = "exact", "inferred", "low"
"""Trust: by kernel or scheduler; by elimination, by a name or by a label; by what the user can write."""


def process_owner(command: str, user: str) -> Owner:
    """Return the owner of a program that nothing but its command and its user names."""
    return Owner(f"process:{of_user(user, command)}", kind="process", user=user)


def of_user(user: str, name: str) -> str:
    """Return a name that users choose, apart from the same name of other users and of the system."""
    return f"{user}/{name}" if user else name
