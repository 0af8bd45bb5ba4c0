"""The attribution that the options ask for."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

from exporter.attribution.assembly.config import AUTO, OFF, ON, AttributionConfig, KubernetesConfig, SlurmConfig
from exporter.attribution.containers.source import ContainerNames, Containers, Units
from exporter.attribution.join import Attribution
from exporter.attribution.kubernetes.api_server import ApiServer, PodWatch, admin_devices, resource_slices
from exporter.attribution.kubernetes.owner_objects import OwnerObjects
from exporter.attribution.kubernetes.pod_owners import PodCgroups, PodOwners
from exporter.attribution.kubernetes.source import Kubernetes, KubernetesSite
from exporter.attribution.nomad.source import AgentPoller, Nomad
from exporter.attribution.slurm.jobs import Controller, DevicePrograms, Environment, JobCgroups, Jobs, Prolog
from exporter.attribution.slurm.local_view import SlurmSite
from exporter.attribution.slurm.scontrol import ShowJob
from exporter.attribution.slurm.source import Slurm
from exporter.attribution.source import OwnerSource
from exporter.host.process import user_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Mounts:
    """Paths of the host's files."""

    procfs: Path = Path("/proc")
    cgroupfs: Path = Path("/sys/fs/cgroup")
    pod_logs: Path = Path("/var/log/pods")
    """The kubelet's log directories. Their names distinguish pods on a shared GPU without the API server."""


@dataclass(frozen=True)
class Parts:
    """Readers of the sources; None is off."""

    kubernetes: Kubernetes | None = None
    slurm: Slurm | None = None
    nomad: AgentPoller | None = None
    containers: ContainerNames = field(default_factory=ContainerNames)
    procfs: Path = Path("/proc")

    @cached_property
    def jobs(self) -> Jobs | None:
        return Jobs(self.slurm, self.procfs) if self.slurm else None


MakeSource = Callable[[Parts], OwnerSource | None]

SOURCES: tuple[MakeSource, ...] = (
    lambda parts: Prolog(parts.jobs) if parts.jobs else None,
    lambda parts: DevicePrograms(parts.jobs) if parts.jobs else JobCgroups(),
    lambda parts: Controller(parts.jobs) if parts.jobs else None,
    lambda parts: PodOwners(parts.kubernetes) if parts.kubernetes else PodCgroups(),
    lambda parts: Nomad(parts.containers, parts.nomad),
    lambda parts: Containers(parts.containers),
    lambda parts: Environment(parts.jobs) if parts.jobs else None,
    lambda _: Units(),
)
"""Sources in order of trust."""


def attribution_of(
    parts: Parts, cgroupfs: Path = Path("/sys/fs/cgroup"), sources: Sequence[MakeSource] = SOURCES
) -> Attribution:
    """Return the attribution over all sources."""
    return Attribution([source for make in sources if (source := make(parts))], cgroupfs)


def attribution(
    config: AttributionConfig,
    mounts: Mounts = Mounts(),
    environment: Mapping[str, str] = os.environ,
    user_name: Callable[[int], str] = user_name,
) -> Attribution:
    """Return the attribution for the options, without starting it."""
    parts = Parts(
        _make_kubernetes(config.kubernetes, mounts, environment),
        _make_slurm(config.slurm, mounts, environment, user_name),
        AgentPoller(config.nomad) if config.nomad else None,
        ContainerNames(
            None if config.containers.mode == OFF else config.containers.folders, required=config.containers.mode == ON
        ),
        mounts.procfs,
    )
    return attribution_of(parts, mounts.cgroupfs)


def _make_kubernetes(config: KubernetesConfig, mounts: Mounts, environment: Mapping[str, str]) -> Kubernetes | None:
    if config.mode == OFF:
        return None
    site = KubernetesSite(config.socket, config.mode != AUTO, mounts.pod_logs)
    if not config.api:
        return Kubernetes(site)
    node = environment.get("NODE_NAME", "") or socket.gethostname()
    server = ApiServer.in_cluster(environment)
    site = replace(site, slices=lambda: resource_slices(server, node), admin=partial(admin_devices, server))
    return Kubernetes(site, watch=PodWatch(server, node, config.pod_labels), owner_objects=OwnerObjects(server))


def _make_slurm(
    config: SlurmConfig, mounts: Mounts, environment: Mapping[str, str], user_name: Callable[[int], str]
) -> Slurm | None:
    if config.mode == OFF:
        return None
    host = environment.get("SLURMD_NODENAME") or socket.gethostname()
    site = SlurmSite(
        procfs=mounts.procfs,
        cgroupfs=mounts.cgroupfs,
        gres_conf=config.gres_conf,
        mapping=config.mapping_dir,
        scontrol=config.scontrol,
        names=frozenset({host, host.partition(".")[0]}),
        required=config.mode == ON,
    )
    show_job = ShowJob(config.scontrol)
    return Slurm(site, show_job, show_job.with_gpus, user_name=user_name)
