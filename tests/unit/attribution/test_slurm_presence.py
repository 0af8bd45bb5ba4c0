"""Whether this machine is a Slurm node: a configured folder alone, as the package's defaults have it, says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.attribution.assembly.factory import Parts, attribution_of
from exporter.attribution.background_source import SourceError
from exporter.attribution.slurm.job import Job
from exporter.attribution.slurm.local_view import SlurmSite
from exporter.attribution.slurm.source import MAPPING, PROGRAM, SCONTROL, Slurm
from exporter.core.clock import MonotonicTime
from exporter.core.threads import Threads
from tests.attribution_kit.nodes import cgroup, gpu, host_process, of
from tests.attribution_kit.slurm_node import Node


def _sources(root: Path, *, mapping: str, required: bool = False) -> dict[str, bool]:
    site = SlurmSite(
        procfs=root / "proc",
        cgroupfs=root / "cgroup",
        gres_conf=root / "gres.conf",
        mapping=root / mapping,
        required=required,
    )
    slurm = Slurm(site, _no_cluster)
    assert slurm._mapping
    slurm._mapping.ask_once()
    slurm._local_files.ask_once()
    shown = attribution_of(Parts(slurm=slurm)).join([], {}, {}, MonotonicTime(1.0))
    return {each.source: each.success for each in shown.health}


def _no_cluster(job: str) -> Job | None:
    raise SourceError(f"scontrol: no slurm.conf, asked about {job}")


@pytest.mark.parametrize("mapping", ["missing", "."])
def test_machine_in_no_cluster_reports_no_source_of_slurm(tmp_path: Path, mapping: str) -> None:
    assert _sources(tmp_path, mapping=mapping) == {}


def test_slurm_that_is_required_reports_its_missing_folder(tmp_path: Path) -> None:
    assert _sources(tmp_path, mapping="missing", required=True)["slurm_mapping"] is False


def test_program_with_a_job_id_in_its_environment_makes_no_slurm_node(tmp_path: Path) -> None:
    node = Node(tmp_path, controller={})
    (tmp_path / "proc/70").mkdir()
    (tmp_path / "proc/70/environ").write_bytes(b"SLURM_JOB_ID=7\0SLURM_JOB_USER=alice\0")
    node.read()
    shown = node.attribution.join(
        [gpu(0)],
        {gpu(0).uuid: [70]},
        of([host_process(70, cgroup("/user.slice/user-1000.slice/session-1.scope"))]),
        MonotonicTime(1.0),
    )

    assert [each.source for each in shown.health if each.source.startswith("slurm")] == []


def test_slurm_node_stays_one_between_two_jobs(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.map("0", "7")
    node.read()
    (node.mapping / "0").unlink()
    node.read()

    assert node.slurm.node.evident


def test_each_thread_of_slurm_has_a_name_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads are watched by name, and started by name once the machine has room for them."""
    names: list[str] = []
    monkeypatch.setattr(Threads, "start", lambda _threads, name, _run: names.append(name))
    slurm = Node(tmp_path, controller={}).slurm
    for source in (MAPPING, PROGRAM, SCONTROL):
        for each in slurm.readers(source):
            each.start(Threads())

    assert names == ["slurm-mapping", "slurm", "scontrol", "scontrol-gpus", "slurm-steps"]
