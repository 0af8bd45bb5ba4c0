"""The attribution that the options ask for."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from exporter.attribution.containers.names import ContainerNames, Folders
from exporter.attribution.containers.source import Containers
from exporter.attribution.join import Attribution
from exporter.attribution.kubernetes import resource_slices
from exporter.attribution.kubernetes.api_server import ApiServer, PodWatch
from exporter.attribution.kubernetes.owner_objects import OwnerObjects
from exporter.attribution.kubernetes.pod_owners import PodCgroups, PodOwners
from exporter.attribution.kubernetes.source import Kubernetes, KubernetesSite
from exporter.attribution.nomad.agent import Agent
from exporter.attribution.nomad.source import AgentPoller, Nomad
from exporter.attribution.slurm.jobs import Jobs
from exporter.attribution.slurm.local_view import SlurmSite
from exporter.attribution.slurm.owners import Cgroups, Controller, Environment, JobCgroups, Prolog
from exporter.attribution.slurm.show_job import ShowJob
from exporter.attribution.slurm.source import Slurm
from exporter.attribution.source import OwnerSource
from exporter.attribution.units import Units
from exporter.host.process import user_name

AUTO, ON, OFF = "auto", "on", "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributionOptions:
    """The `--attribution.*` options and the host paths, as plain values. Modes are `auto`, `on` or `off`.

    `auto` costs next to nothing where there is neither: a kubelet counts from when its socket is first there or pods
    run on the GPUs, Slurm from when a job's cgroup, a mapping file or gres.conf is. `on`: it must be there; that it is
    missing shows.
    """

    procfs: Path = Path("/proc")
    cgroupfs: Path = Path("/sys/fs/cgroup")
    kubernetes: str = AUTO
    pod_resources_socket: Path = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
    pod_logs: Path = Path("/var/log/pods")
    """The kubelet's log directories: their names tell pods apart on a shared GPU without the API server."""
    kubernetes_api: bool = False
    pod_labels: Sequence[str] = ()
    node_name: str = ""
    """Of this node in Kubernetes; empty: $NODE_NAME, else the host's name."""
    containers: str = AUTO
    container_folders: Folders = field(default_factory=Folders)
    nomad: str = ""
    """URL of the local agent; empty: it is not asked."""
    nomad_token: Path | None = None
    nomad_ca: Path | None = None
    slurm: str = AUTO
    slurm_mapping_dir: str = ""
    scontrol: str = "scontrol"
    """Empty: slurmctld is never asked."""
    gres_conf: Path = Path("/etc/slurm/gres.conf")


@dataclass(frozen=True)
class Parts:
    """What reads for the sources; None is off."""

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
    lambda parts: Cgroups(parts.jobs) if parts.jobs else JobCgroups(),
    lambda parts: Controller(parts.jobs) if parts.jobs else None,
    lambda parts: PodOwners(parts.kubernetes) if parts.kubernetes else PodCgroups(),
    lambda parts: Nomad(parts.containers, parts.nomad),
    lambda parts: Containers(parts.containers),
    lambda parts: Environment(parts.jobs) if parts.jobs else None,
    lambda _: Units(),
)
"""In order of trust."""


def attribution_of(
    parts: Parts, cgroupfs: Path = Path("/sys/fs/cgroup"), sources: Sequence[MakeSource] = SOURCES
) -> Attribution:
    """Return the attribution over all sources."""
    return Attribution([source for make in sources if (source := make(parts))], cgroupfs)


def attribution(
    options: AttributionOptions,
    environment: Mapping[str, str] = os.environ,
    user_name: Callable[[int], str] = user_name,
) -> Attribution:
    """Everything made and nothing started: `start` begins to ask, `stop` ends it."""
    parts = Parts(
        _kubernetes(options, environment),
        _slurm(options, environment, user_name),
        AgentPoller(Agent(options.nomad, options.nomad_token, options.nomad_ca)) if options.nomad else None,
        ContainerNames(
            None if options.containers == OFF else options.container_folders, required=options.containers == ON
        ),
        options.procfs,
    )
    return attribution_of(parts, options.cgroupfs)


def _kubernetes(options: AttributionOptions, environment: Mapping[str, str]) -> Kubernetes | None:
    if options.kubernetes == OFF:
        return None
    site = KubernetesSite(options.pod_resources_socket, options.kubernetes == ON, options.pod_logs)
    if not options.kubernetes_api:
        return Kubernetes(site)
    node = options.node_name or environment.get("NODE_NAME", "") or socket.gethostname()
    server = ApiServer.in_cluster(environment)
    slices = replace(site, slices=lambda: resource_slices.listed(server, node))
    return Kubernetes(slices, watch=PodWatch(server, node, options.pod_labels), owner_objects=OwnerObjects(server))


def _slurm(
    options: AttributionOptions, environment: Mapping[str, str], user_name: Callable[[int], str]
) -> Slurm | None:
    if options.slurm == OFF:
        return None
    host = environment.get("SLURMD_NODENAME") or socket.gethostname()
    site = SlurmSite(
        procfs=options.procfs,
        cgroupfs=options.cgroupfs,
        gres_conf=options.gres_conf,
        mapping=Path(options.slurm_mapping_dir) if options.slurm_mapping_dir else None,
        scontrol=options.scontrol,
        names=frozenset({host, host.partition(".")[0]}),
        required=options.slurm == ON,
    )
    return Slurm(site, ShowJob(options.scontrol), user_name=user_name)
