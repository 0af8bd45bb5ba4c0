"""Wiring: from the configuration to a driver, a node, a sampler and the threads around it."""

from __future__ import annotations

import fnmatch
import functools
import os
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from exporter.attribution.assembly.config import OFF, ON, SlurmConfig
from exporter.attribution.background_source import BackgroundSource
from exporter.attribution.families import workload_families
from exporter.attribution.slurm import gres
from exporter.commands import STAND_INS, opener
from exporter.config.kinds import near_miss
from exporter.config.option import ConfigError, values_of
from exporter.core.clock import RunningClock
from exporter.core.threads import Threads
from exporter.daemon.config import STALE_SECONDS, DaemonConfig, SamplingConfig, warn_ignored_options
from exporter.driver.interface import Driver
from exporter.faults.config import StateConfig
from exporter.faults.expected import SlurmNode, SlurmNodeState, boot_id, slurm_gpus, slurm_state
from exporter.faults.rule import Limits
from exporter.faults.watch import FaultTracker, FaultWatchConfig
from exporter.host.process import UserNames
from exporter.host.text import exists
from exporter.progress.reader import ProgressReader
from exporter.sampling.accounting import Accounting, AccountingOptions
from exporter.sampling.driver_connection import DriverState
from exporter.sampling.families import families
from exporter.sampling.host_view import Host, HostDeadline, Simulation
from exporter.sampling.sampler import Loop, Pacing, Sampler
from exporter.sampling.snapshot import ProcessHealth, Snapshot
from exporter.sampling.this_host import Paths, ThisHost
from exporter.sampling.usage.nccl_status import NcclReader
from exporter.sampling.xids import follow_driver, follow_kernel_log

Followers = Mapping[str, Callable[[threading.Event], None]]
"""Functions by the name of their thread. Each runs beside the sampling cycles until the event is set."""


_STOPPED_SECONDS = 5.0
"""Seconds between two checks for silence, due every two, after which the whole process must have been stopped."""


class Exporter:
    """Made by `assembly`; the pages and the commands reach the sampling cycles through it."""

    def __init__(
        self,
        node: str,
        sampler: Sampler,
        loop: Loop,
        followers: Followers,
        threads: Threads,
        allocations: Callable[[int], bytes] | None = None,
    ) -> None:
        self.node = node
        """Its name, as the schedulers call it."""
        self.allocations = allocations
        """Rows of the accounting after a number; None where nothing is kept."""
        self._sampler = sampler
        self._loop = loop
        self._followers = followers
        self._threads = threads
        self._running = RunningClock(_STOPPED_SECONDS)
        self._stopped = threading.Event()

    @property
    def snapshot(self) -> Snapshot:
        return self._loop.snapshot

    @property
    def driver_state(self) -> DriverState:
        return self._sampler.connection.state

    @property
    def silent_seconds(self) -> float:
        """Return the seconds since the last cycle ended, or else since the start. Read every two seconds."""
        return self._running.seconds_since(self._loop.alive_at)

    def start(self) -> None:
        self._sampler.start(self._threads)
        self._loop.start(self._threads)
        for name, follow in self._followers.items():
            self._threads.start(name, functools.partial(follow, self._stopped))

    def stop(self) -> None:
        """Ask every thread to end. None is waited for: one may hang in the driver."""
        self._threads.stop()
        self._stopped.set()
        self._loop.stop()
        self._sampler.stop()


STATE_DIR = Path("/var/lib/gpu-exporter")
_NODE_INTERVAL_SECONDS = 120.0
"""Seconds between two questions to slurmctld, or to the API server, about this node."""
_ABSENT_INTERVAL_SECONDS = 10.0
"""Seconds between two searches for a Slurm that is not there yet."""
_MAX_NODE_SECONDS = 600.0
"""The same while they are unreachable."""
_SOON_SECONDS = 1.0
"""Seconds between the two cycles that somebody waits for, at most, whatever --sample.interval is."""
_DEADLINE_INTERVALS = 0.8
"""Fraction of the interval that a cycle may wait for the GPUs: it has to end before the next one."""


def assemble(
    config: DaemonConfig,
    published: Callable[[Snapshot], None],
    threads: Threads | None = None,
    process: Callable[[], ProcessHealth] = ProcessHealth,
    *,
    once: bool = False,
) -> Exporter:
    """Make everything the options ask for; nothing runs yet. Raises ConfigError.

    `process` reports how the exporter's own parts fare. `once` is a run that somebody waits for: its cycles come soon,
    and what the node's own exporter keeps is left to that.
    """
    from exporter.accounting.store import NAME, rows_after  # noqa: PLC0415 - 15 ms that a check saves
    from exporter.accounting.writer import NodeAccounting  # noqa: PLC0415 - the same

    driver = driver_of(config)
    warn_ignored_options(config)
    options = AccountingOptions(
        interval=config.sample.interval,
        process_limit=config.process.limit,
        class_rules=config.attribution.classes,
        limits=config.ledger.thresholds,
    )
    folder = None if once else state_dir(config.faults.state, driver)
    name = node_name(config, driver)
    path = folder / NAME if folder else None
    node = NodeAccounting(path, memory_id=name)
    accounts = Accounting(options, workload_families(config.attribution.kubernetes.pod_labels), node)
    watch = FaultTracker(replace(fault_site(config, driver), read_only=once))
    pace, collectors = pacing(config.sample), config.collectors.enabled
    sampler = Sampler(driver, _make_host(config, driver, once=once), collectors, pace, accounts, process, faults=watch)
    between = min(pace.interval, _SOON_SECONDS) if once else pace.interval
    loop = Loop(sampler.run_cycle, between, published, sampler.extra_reads, sampler.read_again)
    followers = {**_xid_sources(config, driver, sampler)}
    if config.kubernetes.node_health and not (once or driver.simulated):
        from exporter.attribution.kubernetes.api_server import ApiServer  # noqa: PLC0415 - 7 ms that few need
        from exporter.daemon.node_health import NodeHealth  # noqa: PLC0415 - the same

        health = NodeHealth(ApiServer.in_cluster(), name, config.kubernetes, lambda: loop.snapshot)
        followers["kubernetes-health"] = health.run
    allocations = functools.partial(rows_after, path, name) if path else None
    return Exporter(name, sampler, loop, followers, threads or Threads(), allocations)


def _xid_sources(config: DaemonConfig, driver: Driver, sampler: Sampler) -> Followers:
    """Return the sources of XIDs, each for a thread of its own: the driver, and the kernel log of the real node."""
    if not config.collectors.xids:
        return {}

    def events(stopped: threading.Event) -> None:
        follow_driver(driver, sampler.xids, stopped, lambda: not sampler.connection.state.error)

    def kernel_log(stopped: threading.Event) -> None:
        follow_kernel_log(config.paths.kmsg, sampler.xids, sampler.uuids, stopped)

    return {"xid-nvml": events} if driver.simulated else {"xid-nvml": events, "xid-kmsg": kernel_log}


def driver_of(config: DaemonConfig) -> Driver:
    """Open NVIDIA's driver, or the stand-in that an option names. Simulated data is never a fallback.

    Raises ConfigError if an option cannot be used. Loads only the driver that is used.
    """
    values = values_of(config.input)
    named = [option for option in STAND_INS if values[option]]
    if len(named) > 1:
        raise ConfigError(f"--{named[0]} and --{named[1]}: expected one of them, not both")
    if not named:
        from exporter.driver.nvml import NvmlDriver  # noqa: PLC0415

        return NvmlDriver()
    try:
        driver: Driver = opener(named[0])(values[named[0]])
    except ValueError as error:
        raise ConfigError(f"--{named[0]} {values[named[0]]}: {error}") from None
    return driver


def state_dir(config: StateConfig, driver: Driver | None = None) -> Path | None:
    """Return the folder for faults; None for none."""
    if config.folder == "auto":
        return None if driver and driver.simulated else STATE_DIR
    return Path(config.folder) if config.folder else None


def fault_site(config: DaemonConfig, driver: Driver, *, read_only: bool = False) -> FaultWatchConfig:
    """Return what is expected of this node; only the option if it is simulated or was recorded."""
    option, slurm = config.faults.expect_gpus, config.attribution.slurm
    limits = Limits(reference=config.faults.expect_reference)
    if driver.simulated:
        return FaultWatchConfig(
            state_dir(config.faults.state, driver),
            "",
            lambda: {"option": option},
            read_only=read_only,
            xid=config.faults.xid,
            limits=limits,
        )
    names = slurm_names()
    in_slurm = slurm.mode != OFF  # gres.conf may come later: a configless slurmd is sent it
    name = node_name(config, driver)
    kubernetes = None
    if config.attribution.kubernetes.api and config.attribution.kubernetes.mode != OFF and name:
        from exporter.attribution.kubernetes.api_server import ApiServer, NodeObject, read_node  # noqa: PLC0415 - 7 ms

        server = ApiServer.in_cluster()
        kubernetes = BackgroundSource(
            lambda: read_node(server, name),
            NodeObject(),
            name="kubernetes-node",
            interval=lambda _: _NODE_INTERVAL_SECONDS,
            longest=_MAX_NODE_SECONDS,
        )
    return FaultWatchConfig(
        folder=state_dir(config.faults.state, driver),
        boot=boot_id(config.paths.procfs),
        expected=lambda: {
            "option": option,
            "slurm": slurm_gpus(slurm.gres_conf, frozenset(names)) if in_slurm else None,
        },
        maintenance_file=config.faults.maintenance_file,
        slurm=None if read_only else _slurm_node(slurm, names),
        kubernetes=None if read_only else kubernetes,
        read_only=read_only,
        xid=config.faults.xid,
        limits=limits,
    )


def _slurm_node(config: SlurmConfig, names: Sequence[str]) -> BackgroundSource[SlurmNodeState | None] | None:
    """Return the source that asks slurmctld about this node; None where it is not to be asked."""
    if config.mode == OFF or not config.scontrol:
        return None
    required = config.mode == ON
    seen = lambda: required or exists(gres.effective_gres_conf(config.gres_conf))  # noqa: E731
    return BackgroundSource(
        SlurmNode(seen, lambda: slurm_state(config.scontrol, names, required=required)),
        nothing=None,
        name="slurm-node",
        interval=lambda known: _ABSENT_INTERVAL_SECONDS if known is None else _NODE_INTERVAL_SECONDS,
        longest=_MAX_NODE_SECONDS,
    )


def slurm_names() -> Sequence[str]:
    """Return the names Slurm may have for this node: its given name, else the host's short or full one."""
    named = os.environ.get("SLURMD_NODENAME")
    host = named or socket.gethostname()
    short = host.partition(".")[0]
    return tuple(dict.fromkeys((host, short) if named else (short, host)))


def hidden(config: DaemonConfig) -> Sequence[str]:
    """Return the name patterns of hidden metrics. Raises ConfigError for a pattern that fits no metric."""
    known = [family.name for family in families()]
    for pattern in config.metrics.hide:
        if not fnmatch.filter(known, pattern):
            hint = near_miss(pattern, known)
            raise ConfigError(f"--metrics.hide: expected names of metrics as in docs/metrics.md, got {pattern}{hint}")
    return config.metrics.hide


def _make_host(config: DaemonConfig, driver: Driver, *, once: bool) -> Host:
    if config.input.simulate:
        return cast("Simulation", driver).host()
    if config.input.capture:
        return Host()
    return HostDeadline(_this_host(config, once=once), config.sample.interval / 2, stale_seconds(config.sample))


def node_name(config: DaemonConfig, driver: Driver) -> str:
    """Return the schedulers' name of this node: simulated, in Kubernetes, in Slurm, else the host's name."""
    if config.input.simulate:
        return cast("Simulation", driver).node_name
    return os.environ.get("NODE_NAME", "") or os.environ.get("SLURMD_NODENAME", "") or socket.gethostname()


def _this_host(config: DaemonConfig, *, once: bool) -> ThisHost:
    from exporter.attribution.assembly.factory import Mounts, attribution  # noqa: PLC0415 - 55 ms that a check saves

    paths = Paths(config.paths.procfs, config.paths.sysfs, config.paths.cgroupfs)
    users = UserNames()
    mounts = Mounts(procfs=paths.procfs, cgroupfs=paths.cgroupfs)
    owners = attribution(config.attribution, mounts, user_name=users.name)
    reports, folder = None if once else config.progress.socket, config.progress.folder  # who opens it takes it over
    progress = ProgressReader(reports, folder, paths.procfs, cgroupfs=paths.cgroupfs) if reports or folder else None
    return ThisHost(
        paths,
        owners,
        users=users,
        command_lines=config.process.command_line,
        progress=progress,
        nccl=NcclReader(paths.procfs) if config.nccl.ras else None,
    )


def pacing(config: SamplingConfig) -> Pacing:
    """Raises ConfigError."""
    return Pacing(config.interval, _DEADLINE_INTERVALS * config.interval, stale_seconds(config))


def stale_seconds(config: SamplingConfig) -> float:
    """Age at which a gauge vanishes. It has to reach to the next cycle: the default does, by itself."""
    reach: float = round(config.interval + _DEADLINE_INTERVALS * config.interval, 6)
    if config.stale < reach and config.stale != STALE_SECONDS:
        # Every gauge would vanish, and the node not be ready, between two cycles.
        raise ConfigError(
            f"--sample.stale: expected at least 1.8 times --sample.interval ({reach:g}s), got {config.stale:g}s"
        )
    return max(config.stale, reach)
