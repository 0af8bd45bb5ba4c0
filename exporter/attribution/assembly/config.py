"""The options of the sources of owners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from exporter.attribution.containers.source import Folders
from exporter.attribution.nomad.source import Agent
from exporter.attribution.work_class import ClassRule, parse_rules
from exporter.config.kinds import Choice, Pairs, boolean, choice, http_url, names, optional_path, path, text
from exporter.config.option import option, section

AUTO, ON, OFF = "auto", "on", "off"
"""Modes of a source. With `on` a missing source is a failure."""
_POD_RESOURCES = Path("/var/lib/kubelet/pod-resources/kubelet.sock")


@dataclass(frozen=True, kw_only=True)
class KubernetesConfig:
    """`--attribution.kubernetes` and what is below it."""

    mode: str = option(
        AUTO,
        Choice((AUTO, ON, OFF), or_path=True),
        "Pods: on, off, or auto, which is on where the kubelet's socket is or pods run on the GPUs. A path is on, with "
        f"the socket there in place of {_POD_RESOURCES}.",
        metavar="MODE",
        name="",
    )
    api: bool = option(
        "false",
        boolean,
        "Ask the API server for this node's pods and what they belong to: exact names of workloads, labels, restarts. "
        "The node's name there is $NODE_NAME, else the host's.",
    )
    pod_labels: tuple[str, ...] = option(
        "", names, "Pod labels to show on gpu_workload_info, as label_NAME.", metavar="NAMES"
    )

    @property
    def socket(self) -> Path:
        """The kubelet's pod-resources socket."""
        return Path(self.mode) if self.mode.startswith("/") else _POD_RESOURCES


@dataclass(frozen=True, kw_only=True)
class ContainersConfig:
    """`--attribution.containers` and what is below it."""

    mode: str = option(
        AUTO,
        choice(AUTO, ON, OFF),
        "Names of containers without a scheduler: off; auto: where their engines' files may be read; on: a failure "
        "where not.",
        metavar="MODE",
        name="",
    )
    folders: Folders = option(
        ",".join(f"{item.name}={item.default}" for item in fields(Folders)),
        Pairs({item.name: path for item in fields(Folders)}, lambda given: Folders(**given)),
        "Folders of the container engines, which names of containers come from: data of Docker, storage of root's "
        "Podman, state of containerd.",
        metavar="ENGINE=DIR",
    )


def _nomad_agent(given: Mapping[str, Any]) -> Agent | None:
    if given and "address" not in given:
        raise ValueError("address=URL,...; address is missing")
    return Agent(given["address"], given.get("token-file"), given.get("ca-file")) if given else None


@dataclass(frozen=True, kw_only=True)
class SlurmConfig:
    """`--attribution.slurm` and what is below it."""

    mode: str = option(
        AUTO,
        choice(AUTO, ON, OFF),
        "Slurm jobs: on, off, or auto, which is on where slurmd's files or job cgroups are.",
        metavar="MODE",
        name="",
    )
    mapping_dir: Path | None = option("", optional_path, "Directory of the prolog's files about jobs.", metavar="DIR")
    scontrol: str = option(
        "scontrol",
        text,
        "The scontrol to ask about a new job id; empty: slurmctld is not asked.",
        metavar="COMMAND",
        name="/slurm.scontrol",
    )
    gres_conf: Path = option(
        "/etc/slurm/gres.conf",
        path,
        "Path of gres.conf, which maps GRES indexes to device files.",
        metavar="FILE",
    )


@dataclass(frozen=True, kw_only=True)
class AttributionConfig:
    """`--attribution.*`."""

    kubernetes: KubernetesConfig = section(KubernetesConfig)
    containers: ContainersConfig = section(ContainersConfig)
    slurm: SlurmConfig = section(SlurmConfig)
    nomad: Agent | None = option(
        "",
        Pairs({"address": http_url, "token-file": path, "ca-file": path}, _nomad_agent),
        "Nomad's local agent, address=http://127.0.0.1:4646; token-file has a token with node:read, agent:read and "
        "read-job, ca-file verifies https. Empty: it is not asked.",
        metavar="NAME=VALUE",
    )
    classes: tuple[ClassRule, ...] = option(
        "",
        parse_rules,
        "Class of work by owner, e.g. namespace=serving:service,partition=debug*:interactive.",
        metavar="RULES",
    )
