"""The edge around the latch: reads every few seconds, reads acknowledgements, and saves in the background."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exporter.attribution.background_source import HANGS_SECONDS, BackgroundSource
from exporter.collectors.ecc import Ecc, RemappedRows
from exporter.collectors.health import NO_ACTION, Health
from exporter.collectors.info import Info
from exporter.collectors.nvlink import Nvlink
from exporter.collectors.pcie import Pcie
from exporter.collectors.power import Power
from exporter.collectors.utilization import Utilization
from exporter.collectors.xid import XidReport
from exporter.collectors.xid_catalogue import RECOVERY_CHANGED
from exporter.core.clock import EPOCH, NEVER, MonotonicTime, UnixTime, boot_time
from exporter.core.site_file import FILES_SECONDS
from exporter.core.threads import Threads
from exporter.core.worker import Worker
from exporter.driver.interface import Device
from exporter.faults import acknowledgements, state_file
from exporter.faults.families import FaultStatus, acknowledged_faults
from exporter.faults.latch import advance_faults
from exporter.faults.model import Acknowledgement, Fault, FaultState, Observation, ObservedGpu, SwitchFault
from exporter.faults.reference import BUSY, stated_levels
from exporter.faults.rule import Limits
from exporter.faults.state_file import Saver, StateError

if TYPE_CHECKING:
    from exporter.attribution.kubernetes.api_server import NodeObject
    from exporter.faults.expected import SlurmNodeState


def observed_gpu(  # noqa: PLR0913 - what is known of a GPU
    device: Device,
    readings: Mapping[str, Any],
    xids: Mapping[int, XidReport],
    *,
    up: bool | None,
    failure: str,
    present: bool = True,
    programs: Mapping[int, Sequence[UnixTime]] | None = None,
    reset: UnixTime = EPOCH,
) -> ObservedGpu:
    """`readings` are the last good ones, by collector; what a GPU or an option leaves out is not known."""
    info, power, ecc = readings.get("info"), readings.get("power"), readings.get("ecc")
    nvlink, rows, health = readings.get("nvlink"), readings.get("remapped_rows"), readings.get("health")
    pcie, use = readings.get("pcie"), readings.get("utilization")
    links = nvlink.links_up if isinstance(nvlink, Nvlink) else None
    if not links and isinstance(info, Info) and info.mig == 1:
        links = None  # an A100 that is split takes all its links down on purpose
    if isinstance(health, Health) and health.action == NO_ACTION:  # an XID that names another recovery is void
        xids = {xid: each for xid, each in xids.items() if xid != RECOVERY_CHANGED}
    return ObservedGpu(
        uuid=device.uuid,
        index=device.index,
        serial=info.serial if isinstance(info, Info) else "",
        bus=device.pci_bus_id,
        up=up,
        failure=failure,
        joules=power.joules if isinstance(power, Power) else None,
        uncorrected=ecc.since_load.get("uncorrected") if isinstance(ecc, Ecc) else None,
        uncorrected_at=ecc.read_at if isinstance(ecc, Ecc) else None,
        model=info.model if isinstance(info, Info) else "",
        links=links,
        width=pcie.width if isinstance(pcie, Pcie) else None,
        generation=pcie.generation if isinstance(pcie, Pcie) else None,
        loaded=isinstance(use, Utilization) and (use.share or 0.0) > BUSY,
        remap_failed=rows.failed if isinstance(rows, RemappedRows) else None,
        sram_exceeded=ecc.sram_threshold_exceeded if isinstance(ecc, Ecc) else None,
        xids={xid: each.time for xid, each in xids.items()},
        xid_classes={xid: each.class_ for xid, each in xids.items()},
        programs=programs or {},
        reset=reset,
        present=present,
    )


log = logging.getLogger(__name__)

NAME = "faults.json"
_OBSERVE_SECONDS = 5.0
"""Seconds between two observations: their files are read no more often."""
_EXPECTED_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class FaultWatchConfig:
    """Facts that the node around the GPUs reports. `folder` None keeps faults in memory alone."""

    folder: Path | None = None
    boot: str = ""
    expected: Callable[[], Mapping[str, int | None]] = dict[str, "int | None"]
    maintenance_file: Path | None = None
    slurm: BackgroundSource[SlurmNodeState | None] | None = None
    """Its answer is None while there is no sign of Slurm."""
    kubernetes: BackgroundSource[NodeObject] | None = None
    read_only: bool = False
    """Somebody else keeps the file."""
    xid: Mapping[int, str] = field(default_factory=dict[int, str])
    """The site's own classes of XIDs."""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class _SiteFiles:
    """Contents of the files that other programs and people write; `complaint` is what is wrong with them."""

    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    counted_at: MonotonicTime = NEVER
    maintenance: tuple[bool, str] = (False, "")
    """Last answer whether the file of maintenance is there; and why there is none now."""
    acknowledged: tuple[Acknowledgement, ...] = ()
    aside: tuple[str, ...] = ()
    complaint: str = ""


class FaultTracker:
    """Belongs to the thread that runs the cycles. Threads of their own save, and read files: a disk may hang."""

    def __init__(self, site: FaultWatchConfig) -> None:
        self._site = site
        self._state = FaultState()
        self._observed_at = NEVER
        self.status = FaultStatus()
        self._complaint = ""
        self._saver = Saver(site.folder / NAME) if site.folder and not site.read_only else None
        self._files = _SiteFiles()
        self._reader: Worker[_SiteFiles] | None = None
        self._incomplete = ""
        """Reason why the state file was not understood in full, if it could not be set aside."""
        if site.folder:
            self._state, self._incomplete = _load_state(site.folder / NAME, read_only=site.read_only)

    def start(self, threads: Threads) -> None:
        if self._saver:
            threads.start("faults", self._saver.run)
        self._reader = Worker("site-files", threads)
        for source in self._node_sources():
            source.start(threads)

    def stop(self) -> None:
        if self._saver:
            self._saver.stop(self._state)
        if self._reader:
            self._reader.stop()
        for source in self._node_sources():
            source.stop()

    def _node_sources(self) -> Iterator[BackgroundSource[SlurmNodeState | None] | BackgroundSource[NodeObject]]:
        return (source for source in (self._site.slurm, self._site.kubernetes) if source)

    def _errors_of_sources(self, now: MonotonicTime) -> Mapping[str, str]:
        """Return the error of each source, empty for none; without sources that are not here or still to answer."""
        slurm = self._site.slurm
        absent = slurm is not None and slurm.answer.success and slurm.answer.value is None
        named = (("slurm", None if absent else slurm), ("kubernetes", self._site.kubernetes))
        states = ((name, source.answer.error, source.health(name, now)) for name, source in named if source)
        return {
            **({"file": self._files.maintenance[1]} if self._site.maintenance_file else {}),
            **({"acknowledgements": self._complaint} if self._complaint else {}),
            **{
                name: "" if health.success else error or f"no answer for {HANGS_SECONDS:g} s"
                for name, error, health in states
                if health.success or error or health.age > HANGS_SECONDS
            },
        }

    @property
    def released(self) -> bool:
        """Return whether the driver is to be left alone, by the file of maintenance."""
        return self._files.maintenance[0] and not self._site.read_only

    @property
    def pool(self) -> str | None:
        """Return the pool whose price the node's free GPUs have, empty for none; None before the first answer."""
        answers = (source.answer.value for source in self._node_sources())
        return max((each.pool for each in answers if each and each.pool is not None), key=bool, default=None)

    @property
    def site_xids(self) -> Mapping[int, str]:
        return self._site.xid

    @property
    def limits(self) -> Limits:
        return self._site.limits

    def is_due(self, monotonic: MonotonicTime) -> bool:
        return monotonic - self._observed_at >= _OBSERVE_SECONDS

    def observe(  # noqa: PLR0913 - what a cycle found
        self,
        time: UnixTime,
        monotonic: MonotonicTime,
        gpus: tuple[ObservedGpu, ...],
        refused: tuple[tuple[int, str], ...],
        *,
        driver: bool,
        sxids: Mapping[tuple[str, str], UnixTime] | None = None,
        unclaimed: Mapping[str, Mapping[int, XidReport]] | None = None,
        booted: UnixTime = EPOCH,
    ) -> None:
        """Advance the faults by what this cycle read of the GPUs, and update `status`."""
        self._observed_at = monotonic
        before = self._state
        self._read_files(monotonic)
        acknowledged, counts = self._files.acknowledged, self._expected_counts()
        stated = counts.get("option") or counts.get("slurm") or 0
        observation = Observation(
            time, self._site.boot, driver, gpus, refused, acknowledged, sxids or {}, unclaimed or {}, stated, booted
        )
        observation = replace(observation, levels=stated_levels(self.limits))
        self._state = advance_faults(before, observation)
        _log_changes(before, self._state)
        if self._saver:
            self._saver.offer_state(self._state, monotonic, urgent=_must_keep(before) != _must_keep(self._state))
        slurm, kubernetes = self._site.slurm, self._site.kubernetes
        maintenance = {
            "file": self._files.maintenance[0],
            "slurm": bool(slurm and slurm.answer.value and slurm.answer.value.maintenance),
            "kubernetes": bool(kubernetes and kubernetes.answer.value.maintenance),
        }
        errors = self._errors_of_sources(monotonic)
        _log_sources(self.status.sources, {name: errors[name] for name in errors if name != "acknowledgements"})
        self.status = FaultStatus(
            self._state.faults,
            self._state.switches,
            self._expected_counts(),
            tuple(source for source, out in maintenance.items() if out),
            self._saver.success if self._saver else None,
            acknowledged_faults(self._state),
            tuple(sorted({*self._files.aside, *((self._incomplete,) if self._incomplete else ())})),
            {source: not error for source, error in errors.items()},
        )

    def _expected_counts(self) -> Mapping[str, int]:
        devices = sum(known.expected for known in self._state.confirmed_devices.values())
        return {**self._files.counts, **({"history": devices} if devices else {})}

    def _read_files(self, monotonic: MonotonicTime) -> None:
        """Read the files of the site. While they do not answer, they stay as they were."""
        read = partial(_read_files, self._site, self._files, monotonic)
        if self._reader is None:
            self._files = read()
        elif found := self._reader.run(read, FILES_SECONDS):
            self._files = found
        else:
            complaint = f"the files of the site do not answer in {FILES_SECONDS:g} s"
            maintenance = (self._files.maintenance[0], complaint)
            self._files = replace(self._files, complaint=complaint, maintenance=maintenance)
        if self._files.complaint and self._files.complaint != self._complaint:
            log.warning("%s", self._files.complaint)
        self._complaint = self._files.complaint


def _load_state(path: Path, *, read_only: bool) -> tuple[FaultState, str]:
    """Return the state, and why some of it may be missing. A file that was not understood in full is set aside."""
    try:
        found = state_file.read_state(path)
    except StateError as error:
        log.warning("known faults cannot be read, and are lost: %s", error)
        if not read_only:
            state_file.move_aside(path)
        return FaultState(), state_file.UNREADABLE
    if not found.cause:
        return found.state, ""
    try:
        kept = path if read_only else state_file.set_aside(path, found.cause)
    except StateError as error:
        log.warning("a state file that was not understood in full cannot be set aside: %s", error)
        return found.state, found.cause
    log.warning("some known faults may be lost: %s: %s; kept as %s", path, found.reason, kept)
    return found.state, found.cause if read_only else ""


def _read_files(site: FaultWatchConfig, before: _SiteFiles, now: MonotonicTime) -> _SiteFiles:
    """Return what the files hold now. The numbers of GPUs are read once a minute."""
    counts, counted_at = before.counts, before.counted_at
    if now - counted_at >= _EXPECTED_SECONDS:
        kubernetes = {"kubernetes": site.kubernetes.answer.value.gpus} if site.kubernetes else {}
        expected = {**site.expected(), **kubernetes}
        counts, counted_at = {source: count for source, count in expected.items() if count}, now
    there = _file_exists(site.maintenance_file, before.maintenance[0]) if site.maintenance_file else before.maintenance
    if not site.folder:
        return _SiteFiles(counts, counted_at, there)
    aside = state_file.causes_set_aside(site.folder / NAME, boot_time())
    try:
        found = acknowledgements.read_acknowledgements(site.folder)
    except StateError as error:
        return _SiteFiles(counts, counted_at, there, (), aside, str(error))
    skipped = f"{site.folder / acknowledgements.NAME}: {found.skipped} lines are no acknowledgements, and are skipped"
    return _SiteFiles(counts, counted_at, there, found.entries, aside, skipped if found.skipped else "")


def _file_exists(file: Path, before: bool) -> tuple[bool, str]:  # noqa: FBT001 - the last answer
    """Return whether the file is there; where that is unknown, the last answer, and why."""
    try:
        file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False, ""
    except OSError as error:
        return before, f"{file}: {error.strerror or error}"
    return True, ""


def _must_keep(state: FaultState) -> object:
    """Return what must not be lost in a crash: all but the last recorded values, which change at every read."""
    return (
        state.faults,
        state.switches,
        state.switches_last_reset,
        state.accepted,
        state.acknowledged_until,
        state.boot,
        {u: (k.index, k.serial, k.links, k.last_reset) for u, k in state.confirmed_devices.items()},
    )


def _log_changes(before: FaultState, after: FaultState) -> None:
    old, new = _describe_faults(before), _describe_faults(after)
    for fault, described in new.items():
        if fault not in old:
            log.warning("fault: %s, repair: %s", *described)
    for fault, (text, _) in old.items():
        if fault not in new:
            log.info("fault over: %s", text)


def _describe_faults(state: FaultState) -> Mapping[Fault | SwitchFault, tuple[str, str]]:
    """Return the text and the repair of each fault: the same, whatever its GPU's index and whatever the clock."""
    found: dict[Fault | SwitchFault, tuple[str, str]] = {
        replace(each, index=0 if each.uuid else each.index, since=EPOCH): (
            f"GPU {each.index} {each.kind.value} ({each.evidence})",
            each.action.value,
        )
        for each in state.faults
    }
    return found | {
        replace(each, since=EPOCH): (each.evidence, "a reset of all GPUs together") for each in state.switches
    }


def _log_sources(before: Mapping[str, bool], errors: Mapping[str, str]) -> None:
    for source, error in errors.items():
        if error and before.get(source, True):
            log.warning(
                "%s does not say what this node should have, nor whether it is in maintenance: %s", source, error
            )
        elif not error and not before.get(source, True):
            log.info("%s says again what this node should have, and whether it is in maintenance", source)
