"""Which jobs slurmctld is asked about, in how much detail, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.attribution.slurm.job import Job, NodeGres, first_host
from exporter.attribution.slurm.local_view import SlurmSite
from exporter.attribution.slurm.prolog_files import parse_job_file
from exporter.attribution.slurm.source import NODES_PER_SECOND, SPREAD_SECONDS, Slurm
from exporter.core.clock import MonotonicTime

FILE = """\
SLURM_JOB_ID=7
SLURM_JOB_GPUS=0,1
SLURM_JOB_USER=alice
SLURM_JOB_PARTITION=gpu
SLURM_JOB_NUM_NODES={count}
SLURMD_NODENAME={node}
SLURM_NODELIST={nodes}
"""
JOB = Job("7", "alice", "physics", "gpu", "train", state="RUNNING", node_list="n1", node_count=1, gres=None)
GRES, OTHER_GRES = ((NodeGres(frozenset({"n1"}), "gpu", 1, (index,)),) for index in (0, 1))


class Node:
    """Slurm on a node, with a slurmctld of 22.05 that counts what it is asked."""

    def __init__(self, root: Path, jobs: Mapping[str, Job], *, spread: float = 1.0) -> None:
        self.mapping = root / "map"
        self.mapping.mkdir()
        (root / "cgroup").mkdir()
        (root / "cgroup/cgroup.controllers").write_text("")
        self.brief: list[str] = []
        self.detailed: list[str] = []
        self.now = 0.0
        self._jobs = jobs
        site = SlurmSite(
            procfs=root / "proc",
            cgroupfs=root / "cgroup",
            gres_conf=root / "gres.conf",
            mapping=self.mapping,
            names=frozenset({"n1"}),
        )
        self.slurm = Slurm(site, self._ask, self._ask_detailed, clock=lambda: MonotonicTime(self.now))
        self.slurm._spread = spread

    def _ask(self, job: str) -> Job | None:
        self.brief.append(job)
        return self._jobs.get(job)

    def _ask_detailed(self, job: str) -> Job | None:
        self.detailed.append(job)
        found = self._jobs.get(job)
        return found and replace(found, gres=GRES)

    def file(self, node: str = "n1", nodes: str = "n1", count: int = 1) -> None:
        (self.mapping / "job_7").write_text(FILE.format(node=node, nodes=nodes, count=count))

    def read(self, *jobs: str, at: float = 0.0) -> None:
        """Read the node at a time, while processes of `jobs` are there."""
        self.now = at
        assert self.slurm._mapping
        self.slurm._mapping.ask_once()
        self.slurm._local_files.ask_once()
        self.slurm.noticed(jobs, ())
        for cache in self.slurm._caches:
            while cache._wanted and cache.answer_next():
                pass


def test_gpus_that_the_prolog_reports_are_not_asked_for(tmp_path: Path) -> None:
    node = Node(tmp_path, {"7": JOB})
    node.file()
    for second in range(5):
        node.read(at=second)

    assert (node.brief, node.detailed) == (["7"], [])


def test_gpus_that_no_source_on_the_node_reports_are_asked_for_once(tmp_path: Path) -> None:
    node = Node(tmp_path, {"7": JOB})
    for second in range(5):
        node.read("7", at=second)

    assert (node.brief, node.detailed) == (["7"], ["7"])
    assert node.slurm.job("7") == replace(JOB, gres=GRES)


def test_job_without_gpus_is_asked_about_once(tmp_path: Path) -> None:
    node = Node(tmp_path, {"7": replace(JOB, gres=())})
    for second in range(5):
        node.read("7", at=second)

    assert (node.brief, node.detailed) == (["7"], [])


def test_nothing_is_asked_before_the_files_of_the_prolog_are_read(tmp_path: Path) -> None:
    node = Node(tmp_path, {"7": JOB})
    node.file()
    node.slurm._local_files.ask_once()
    node.slurm.noticed(["7"], ())

    assert not any(cache._wanted for cache in node.slurm._caches)
    assert node.slurm.pending("7")


def test_only_the_first_node_of_a_job_asks_for_what_the_prolog_leaves_out(tmp_path: Path) -> None:
    asked: dict[str, int] = {}
    for name in ("n1", "n2", "n3"):
        (tmp_path / name).mkdir()
        node = Node(tmp_path / name, {"7": JOB}, spread=0.0)
        node.file(name, "n[1-3]", 3)
        node.read()
        asked[name] = len(node.brief)
        known = node.slurm.job("7")
        assert known is not None
        assert (known.user, known.partition) == ("alice", "gpu")

    assert asked == {"n1": 1, "n2": 0, "n3": 0}


def test_nodes_of_a_large_job_ask_in_turn(tmp_path: Path) -> None:
    node = Node(tmp_path, {"7": JOB}, spread=0.5)
    node.file(nodes="n[1-1000]", count=1000)
    asked = []
    for second in range(int(SPREAD_SECONDS)):
        node.read(at=second)
        asked.append(len(node.brief))

    assert asked.index(1) == SPREAD_SECONDS / 2
    assert asked[-1] == 1


def test_nodes_of_a_small_job_do_not_wait(tmp_path: Path) -> None:
    node = Node(tmp_path, {"7": JOB})
    node.file(nodes="n[1-2]", count=2)
    node.read(at=0)
    node.read(at=1 / NODES_PER_SECOND)

    assert node.brief == ["7"]


def test_job_that_shares_its_gpus_by_shards_is_asked_about_on_each_node() -> None:
    shared = parse_job_file("7", FILE.format(node="n2", nodes="n[1-2]", count=2) + "SLURM_SHARDS_ON_NODE=4\n")

    assert shared is not None
    assert not shared.complete


def test_first_name_of_a_list_of_nodes() -> None:
    named = {
        "n1": "n1",
        "n[1-3],r7": "n1",
        "n[08,11-12]": "n08",
        "r[1-2]n[3-4],x": "r1n3",
        "a,b": "a",
        "": "",
    }
    assert {text: first_host(text) for text in named} == named


@pytest.mark.parametrize(("brief", "gres"), [(None, GRES), ((), ()), (OTHER_GRES, OTHER_GRES)])
def test_gpus_of_the_brief_answer_count_where_it_has_them(
    tmp_path: Path, brief: tuple[NodeGres, ...] | None, gres: tuple[NodeGres, ...]
) -> None:
    """The detailed answer is of an earlier moment: the job was requeued since."""
    slurm = Node(tmp_path, {}).slurm
    assert slurm._job_cache
    assert slurm._gpu_cache
    slurm._job_cache.jobs, slurm._gpu_cache.jobs = {"7": replace(JOB, gres=brief)}, {"7": replace(JOB, gres=GRES)}

    known = slurm.job("7")
    assert known
    assert known.gres == gres
