"""The last view of a cycle: what programs report, and GPUs whose memory is the system's too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from exporter.attribution.join import Attribution
from exporter.attribution.owner import Ownership, Target
from exporter.core.clock import Moment, MonotonicTime, UnixTime
from exporter.host.model import HostProcess
from exporter.progress.reader import ProgressReader
from exporter.sampling import this_host
from exporter.sampling.host_view import HostQuestion, HostView
from exporter.sampling.this_host import Paths, ThisHost
from tests.unit.progress.test_progress_reader import JOB, Node

GPUS = (Target("GPU-0", 0, "0009:01:00.0"), Target("GPU-1", 1, "0019:01:00.0"))


class KnownOwners(Attribution):
    """Process 71 belongs to JOB."""

    def join(
        self,
        targets: Sequence[Target],
        processes: Mapping[str, Sequence[int]],
        hosts: Mapping[int, HostProcess],
        now: MonotonicTime,
    ) -> Ownership:
        del targets, processes, hosts, now
        return Ownership(processes={71: JOB})


def last_view(root: Path, progress: ProgressReader | None = None) -> HostView:
    paths = Paths(root / "proc", root / "sys", root / "cgroup")
    host = ThisHost(paths, KnownOwners((), paths.cgroupfs), progress=progress)
    *_, view = host.stages(HostQuestion(Moment(UnixTime(0.0), MonotonicTime(0.0)), {}, GPUS))
    return view


def test_view_with_a_progress_reader_has_the_reports_by_owner(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.report(node.process(71), counters={"samples": 100.0})

    found = last_view(tmp_path, node.reader).reported

    assert {owner: each.counters for owner, each in found.owners.items()} == {JOB: {"samples": 100.0}}


@pytest.mark.parametrize(("sees_all", "unexplained"), [(True, {"GPU-0"}), (False, None)])
def test_memory_of_a_gpu_that_is_a_numa_node_is_unexplained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, sees_all: bool, unexplained: set[str] | None
) -> None:
    """The driver lists no process in another PID namespace, so the memory of every GPU is unexplained."""
    monkeypatch.setattr(this_host, "sees_all_processes", lambda: sees_all)
    for gpu, status in zip(GPUS, ("Node:\t1\nStatus:\tonline\n", "Node:\t-1\nStatus:\tdisabled\n"), strict=True):
        folder = tmp_path / "proc/driver/nvidia/gpus" / gpu.pci_bus_id
        folder.mkdir(parents=True)
        (folder / "numa_status").write_text(status)

    assert last_view(tmp_path).unexplained == unexplained
