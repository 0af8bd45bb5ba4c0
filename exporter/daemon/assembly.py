"""Wiring: from the configuration to a driver, a node, a sampler and the threads around it."""

from __future__ import annotations

import fnmatch
import importlib
import os
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import cast

from exporter.attribution.background_source import BackgroundSource
from exporter.attribution.containers.names import Folders
from exporter.attribution.devices import DeviceName
from exporter.attribution.factory import AttributionOptions, attribution
from exporter.attribution.families import workload_families
from exporter.attribution.kubernetes import node_object
from exporter.attribution.kubernetes.api_server import ApiServer
from exporter.attribution.kubernetes.node_object import NodeObject
from exporter.attribution.slurm import gres
from exporter.collectors import COLLECTORS
from exporter.collectors.base import AnyCollector
from exporter.config.command_line import STAND_INS
from exporter.config.load import Config
from exporter.config.option import ConfigError
from exporter.core.threads import Threads
from exporter.daemon import without_effect
from exporter.daemon.exporter import Exporter, XidSources
from exporter.daemon.pacing import pacing, stale_seconds
from exporter.driver.interface import Driver
from exporter.faults.expected import SlurmNode, boot_id, slurm_gpus, slurm_maintenance
from exporter.faults.watch import FaultWatch, Site
from exporter.host.presence import exists
from exporter.host.users import UserNames
from exporter.ledger.thresholds import Thresholds
from exporter.progress.reader import ProgressReader
from exporter.sampling.accounting import Accounting, AccountingOptions
from exporter.sampling.families import families
from exporter.sampling.host_view import Host, HostDeadline
from exporter.sampling.sampler import Loop, Sampler
from exporter.sampling.simulated_host import SimulatedHost, Simulation
from exporter.sampling.snapshot import ProcessHealth, Snapshot
from exporter.sampling.this_host import Paths, ThisHost
from exporter.sampling.usage.nccl_status import NcclReader
from exporter.sampling.xids import follow_driver, follow_kernel_log

STATE_DIR = Path("/var/lib/gpu-exporter")
_NODE_EVERY = 120.0
"""Seconds between two questions to slurmctld, or to the API server, about this node."""
_ABSENT_EVERY = 10.0
"""Seconds between two looks for a Slurm that is not there yet."""
_NODE_LONGEST = 600.0
"""The same while they do not answer."""
_SOON = 1.0
"""Seconds between the two passes that somebody waits for, at most, whatever --sample.interval is."""


def assemble(
    config: Config,
    published: Callable[[Snapshot], None],
    threads: Threads | None = None,
    process: Callable[[], ProcessHealth] = ProcessHealth,
    *,
    once: bool = False,
) -> Exporter:
    """Make everything the options ask for; nothing runs yet. Raises ConfigError.

    `process` reports how the exporter's own parts fare. `once` is a run that somebody waits for: its passes come soon,
    and what the node's own exporter keeps is left to that.
    """
    driver = driver_of(config)
    without_effect.warn(config)
    accounts = Accounting(_options(config), workload_families(config["attribution.kubernetes.pod-labels"]))
    watch = FaultWatch(replace(fault_site(config, driver), read_only=once))
    pace = pacing(config)
    sampler = Sampler(driver, _host(config, driver, once=once), enabled(config), pace, accounts, process, faults=watch)
    between = min(pace.interval, _SOON) if once else pace.interval
    loop = Loop(sampler.run_pass, between, published)
    xids = _xid_sources(config, driver, sampler)
    return Exporter(node_name(config, driver), sampler, loop, xids, threads or Threads())


def _xid_sources(config: Config, driver: Driver, sampler: Sampler) -> XidSources:
    """What reports XIDs, each for a thread of its own: the driver, and the kernel log of the real node."""
    if not config["collector.xid"]:
        return {}

    def events(stopped: threading.Event) -> None:
        follow_driver(driver, sampler.xids, stopped, lambda: not sampler.connection.state.error)

    def kernel_log(stopped: threading.Event) -> None:
        follow_kernel_log(Path(config["path.kmsg"]), sampler.xids, sampler.uuids, stopped)

    return {"nvml": events} if driver.simulated else {"nvml": events, "kmsg": kernel_log}


def driver_of(config: Config) -> Driver:
    """Open NVIDIA's driver, or the stand-in that an option names. Simulated data is never a fallback.

    Raises ConfigError if an option cannot be used. Loads only the driver that is used.
    """
    named = [option for option in STAND_INS if config[option]]
    if len(named) > 1:
        raise ConfigError(f"--{named[0]} and --{named[1]}: expected one of them, not both")
    if not named:
        from exporter.driver.nvml import NvmlDriver  # noqa: PLC0415

        return NvmlDriver()
    module, _, opener = STAND_INS[named[0]].partition(":")
    try:
        driver: Driver = getattr(importlib.import_module(module), opener)(config[named[0]])
    except ValueError as error:
        raise ConfigError(f"--{named[0]} {config[named[0]]}: {error}") from None
    return driver


def state_dir(config: Config, driver: Driver | None = None) -> Path | None:
    """Where faults are kept; None for nowhere."""
    folder = config["state.dir"]
    if folder == "auto":
        return None if driver and driver.simulated else STATE_DIR
    return Path(folder) if folder else None


def fault_site(config: Config, driver: Driver, *, read_only: bool = False) -> Site:
    """What is expected of this node; nothing but the option of a node that is simulated or was recorded."""
    option: int = config["expect.gpus"]
    if driver.simulated:
        return Site(state_dir(config, driver), "", lambda: {"option": option}, read_only=read_only)
    names = slurm_names()
    gres_conf = Path(config["attribution.slurm.gres-conf"])
    in_slurm = config["attribution.slurm"] != "off"  # gres.conf may come later: a configless slurmd is sent it
    name = node_name(config, driver)
    kubernetes = None
    if config["attribution.kubernetes.api"] and config["attribution.kubernetes"] != "off" and name:
        server = ApiServer.in_cluster()
        kubernetes = BackgroundSource(
            lambda: node_object.read(server, name),
            NodeObject(),
            name="kubernetes-node",
            interval=lambda _: _NODE_EVERY,
            longest=_NODE_LONGEST,
        )
    return Site(
        folder=state_dir(config, driver),
        boot=boot_id(Path(config["path.procfs"])),
        expected=lambda: {"option": option, "slurm": slurm_gpus(gres_conf, frozenset(names)) if in_slurm else None},
        maintenance_file=Path(config["maintenance.file"]) if config["maintenance.file"] else None,
        slurm=None if read_only else _slurm_node(config, names),
        kubernetes=None if read_only else kubernetes,
        read_only=read_only,
    )


def _slurm_node(config: Config, names: Sequence[str]) -> BackgroundSource[bool | None] | None:
    """What asks slurmctld about this node; None where it is not to be asked."""
    mode, scontrol = config["attribution.slurm"], config["attribution.slurm.scontrol"]
    if mode == "off" or not scontrol:
        return None
    conf = Path(config["attribution.slurm.gres-conf"])
    seen = (lambda: True) if mode == "on" else (lambda: exists(gres.in_use(conf)))
    return BackgroundSource(
        SlurmNode(seen, lambda: slurm_maintenance(scontrol, names)),
        nothing=None,
        name="slurm-node",
        interval=lambda known: _ABSENT_EVERY if known is None else _NODE_EVERY,
        longest=_NODE_LONGEST,
    )


def slurm_names() -> Sequence[str]:
    """What Slurm may call this node: the name it was given, else the short or the full one of the host."""
    named = os.environ.get("SLURMD_NODENAME")
    host = named or socket.gethostname()
    short = host.partition(".")[0]
    return tuple(dict.fromkeys((host, short) if named else (short, host)))


def gres_devices(config: Config) -> tuple[DeviceName | None, ...]:
    """What Slurm means by its numbers of GPUs; empty where gres.conf names no files."""
    conf, names = Path(config["attribution.slurm.gres-conf"]), frozenset(slurm_names())
    return gres.read(conf, Path(config["path.procfs"]), names)


def hidden(config: Config) -> Sequence[str]:
    """Return the name patterns of hidden metrics. Raises ConfigError for a pattern that fits no metric."""
    patterns: Sequence[str] = config["metrics.hide"]
    known = [family.name for family in families()]
    for pattern in patterns:
        if not fnmatch.filter(known, pattern):
            raise ConfigError(f"--metrics.hide: expected names of metrics as in docs/metrics.md, got {pattern}")
    return patterns


def enabled(config: Config) -> Sequence[AnyCollector]:
    return tuple(collector for collector in COLLECTORS if config[f"collector.{collector.name}"])


def _options(config: Config) -> AccountingOptions:
    thresholds = config.under("ledger")
    return AccountingOptions(
        interval=config["sample.interval"],
        retention=config["attribution.retention"],
        process_limit=config["process.limit"],
        class_rules=config["attribution.classes"],
        thresholds=Thresholds(**{item.name: thresholds[item.name.replace("_", "-")] for item in fields(Thresholds)}),
    )


def _host(config: Config, driver: Driver, *, once: bool) -> Host:
    if config["simulate"]:
        return SimulatedHost(cast("Simulation", driver).node)
    if config["driver.capture"]:
        return Host()
    return HostDeadline(_this_host(config, once=once), config["sample.interval"] / 2, stale_seconds(config))


def node_name(config: Config, driver: Driver) -> str:
    """As the schedulers call this node: simulated, in Kubernetes, in Slurm, else the host's name."""
    if config["simulate"]:
        return cast("Simulation", driver).node.name
    named = config["attribution.kubernetes.node-name"] or os.environ.get("NODE_NAME", "")
    return named or os.environ.get("SLURMD_NODENAME", "") or socket.gethostname()


def _this_host(config: Config, *, once: bool) -> ThisHost:
    paths = Paths(Path(config["path.procfs"]), Path(config["path.sysfs"]), Path(config["path.cgroupfs"]))
    users = UserNames()
    owners = attribution(
        AttributionOptions(
            procfs=paths.procfs,
            cgroupfs=paths.cgroupfs,
            kubernetes=config["attribution.kubernetes"],
            pod_resources_socket=Path(config["attribution.kubernetes.pod-resources-socket"]),
            kubernetes_api=config["attribution.kubernetes.api"],
            pod_labels=config["attribution.kubernetes.pod-labels"],
            node_name=config["attribution.kubernetes.node-name"],
            containers=config["attribution.containers"],
            container_folders=Folders(
                *(Path(config[name]) for name in ("path.docker", "path.podman", "path.containerd"))
            ),
            nomad=config["attribution.nomad.address"],
            nomad_token=_file(config["attribution.nomad.token-file"]),
            nomad_ca=_file(config["attribution.nomad.ca-file"]),
            slurm=config["attribution.slurm"],
            slurm_mapping_dir=config["attribution.slurm.mapping-dir"],
            scontrol=config["attribution.slurm.scontrol"],
            gres_conf=Path(config["attribution.slurm.gres-conf"]),
        ),
        user_name=users.name,
    )
    return ThisHost(
        paths,
        owners,
        users=users,
        command_lines=config["process.command-line"],
        progress=_progress(config, paths, once=once),
        nccl=NcclReader(paths.procfs, config["nccl.ras-address"]) if config["nccl.ras"] else None,
    )


def _file(name: str) -> Path | None:
    return Path(name) if name else None


def _progress(config: Config, paths: Paths, *, once: bool) -> ProgressReader | None:
    socket, folder = (_file(config[name]) for name in ("progress.socket", "progress.dir"))
    socket = None if once else socket  # whoever opens it takes it over
    return ProgressReader(socket, folder, paths.procfs, cgroupfs=paths.cgroupfs) if socket or folder else None
