"""Reports on a real Slurm of two nodes: an array of five, a requeued, a heterogeneous and a job of nine seconds.

What each held is what its prologs and epilogs say.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.attribution_kit.slurm_cluster import LACKING
from tests.attribution_kit.slurm_kit import ROOT
from tests.attribution_kit.slurm_pair import PairKit
from tests.exporter_process import Running, exporter
from tests.stack import poll, prometheus

pytestmark = [
    pytest.mark.deep,
    pytest.mark.xdist_group("slurm"),
    pytest.mark.skipif(bool(LACKING), reason=LACKING),
]

NO_DATA = 3
EDGES = 1.0
"""GPU seconds that a report may be off for each time a GPU was given and taken back: two cycles and a look at files.
Time that the exporter itself did not observe comes on top: a busy machine keeps it from looking."""


@dataclass(frozen=True)
class Ran:
    """Jobs by what they are, once they have ended."""

    kit: PairKit
    url: str
    ids: Mapping[str, str]

    def report(self, job: str) -> dict[str, Any]:
        """Once the end is in it."""
        return poll(f"the end of {job} in the report", lambda: self._reported(job), 90)

    def _reported(self, job: str) -> dict[str, Any] | None:
        command = [sys.executable, "-m", "exporter", "report", job, "--format", "json", "--since", "15m"]
        done = subprocess.run(
            [*command, "--prometheus.url", self.url], env=self.kit.commands, capture_output=True, text=True, cwd=ROOT,
            check=False,
        )  # fmt: skip
        if done.returncode == NO_DATA:
            return None
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found if found["span"]["end"] is not None else None

    def allocated(self, job: str) -> float:
        """Seconds between its prologs and epilogs."""
        begins, ends = (
            [float(line) for line in (self.kit.work / f"{hook}.{job}").read_text().split()]
            for hook in ("prolog", "epilog")
        )
        return sum(end - begin for begin, end in zip(begins, ends, strict=True))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    folder = tmp_path_factory.mktemp("reports")
    with PairKit() as kit, contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(_exporter(kit, node, folder)) for node in kit.nodes]
        targets = [running.url.removeprefix("http://") for running in nodes]
        config = folder / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 1s}\n"
            f"scrape_configs: [{{job_name: gpu, static_configs: [{{targets: {targets}}}]}}]\n"
        )
        url = stack.enter_context(prometheus(config, folder))
        for running in nodes:
            success = "gpu_exporter_attribution_success"
            running.until("the look at the prolog's files", success, 1.0, source="slurm_mapping")
        yield Ran(kit, url, _run(kit, url))


@contextlib.contextmanager
def _exporter(kit: PairKit, node: str, folder: Path) -> Iterator[Running]:
    own = folder / node
    own.mkdir()
    slow = own / "scontrol"
    slow.write_text(f'#!/bin/sh\nsleep 0.5\nexec {kit.scontrol} "$@"\n')
    slow.chmod(0o755)
    options = (
        *("--path.cgroupfs", str(kit.work / "etc")),  # no cgroups: those of other clusters are none of this one's
        *("--sample.interval", "500ms", "--attribution.slurm", "on"),
        *("--attribution.slurm.mapping-dir", str(kit.mapping(node))),
        *("--slurm.scontrol", str(own / "scontrol")),
        *("--attribution.slurm.gres-conf", f"{kit.work}/etc/gres.conf"),
    )
    with exporter(own, *options, environment={**os.environ, **kit.driver, "SLURMD_NODENAME": node}) as running:
        yield running


def _run(kit: PairKit, url: str) -> Mapping[str, str]:
    """All at once, as far as there are GPUs; ends with the last epilog."""
    array = _sbatch(kit, "--array=1-5", "--wrap", "sleep 15")
    whole = _sbatch(kit, ":", "--gres=gpu:2", "--wrap", "sleep 15")
    short = _sbatch(kit, "--wrap", "sleep 9")
    first, second = kit.nodes
    again = _sbatch(kit, "--requeue", "-w", first, "--wrap", "sleep 12")
    poll("the prolog of the job that is requeued", lambda: (kit.work / f"prolog.{again}").exists() or None, 60)
    poll("its run", lambda: "RUNNING" in kit.run("squeue", "-h", "-j", again, "-o", "%T") or None, 60)
    allocated = f'gpu_workload_allocated_gpus{{slurm_job="{again}"}}'
    poll("its begin in Prometheus", lambda: _answer(url, f"{allocated} > 0") or None, 60)
    kit.run("scontrol", "requeue", again)
    poll("its first end", lambda: (kit.work / f"epilog.{again}").exists() or None, 60)
    poll("its turn", lambda: "PENDING" in kit.run("squeue", "-h", "-j", again, "-o", "%T") or None, 60)
    poll("its end in Prometheus", lambda: _answer(url, f"{allocated} == 0") or None, 60)
    # A slurmd runs no second prolog for a job whose credential it still has, for which Slurm waits two minutes.
    kit.run("scontrol", "update", f"JobId={again}", f"ReqNodeList={second}", "StartTime=now")
    poll("the end of all", lambda: not kit.run("squeue", "-h").strip() or None, 240)
    rows = kit.run("sacct", "-n", "-X", "-P", "-j", f"{array},{whole}", "-o", "JobID,JobIDRaw").split()
    parts = {name: raw for name, _, raw in (row.partition("|") for row in rows)}
    for raw in (*parts.values(), again, short):
        poll(f"the epilog of {raw}", functools.partial(_there, kit.work / f"epilog.{raw}"), 60)
    return {"again": again, "array": array, "whole": whole, "short": short, **parts}


def _answer(url: str, query: str) -> Sequence[Mapping[str, Any]]:
    answer = requests.get(f"{url}/api/v1/query", params={"query": query}, timeout=30).json()
    found: Sequence[Mapping[str, Any]] = answer["data"]["result"]
    return found


def _there(file: Path) -> bool | None:
    return file.exists() or None


def _sbatch(kit: PairKit, *arguments: str) -> str:
    return kit.run("sbatch", "--parsable", "-o", "/dev/null", "--gres=gpu:1", *arguments).strip()


Record = Callable[[str, object], None]


def _right(ran: Ran, named: str, allocated: Sequence[tuple[str, int]], record: Record, times: int = 1) -> None:
    """The report by the name people use says what the jobs with these raw ids and so many Allocated GPUs."""
    found = ran.report(named)
    truth, gpus = sum(ran.allocated(raw) * gpus for raw, gpus in allocated), sum(gpus for _, gpus in allocated)
    told, unobserved = found["gpu_hours"] * 3600, found["hours"].get("unobserved", 0.0) * 3600
    record("measured", f"{named}: held {truth:.2f} GPU s by prolog and epilog, {told:.2f} by the report")
    assert told == pytest.approx(truth, abs=EDGES * times * gpus + unobserved)
    assert found["gpus"] == gpus


def test_elements_of_an_array_are_told_apart(ran: Ran, record_property: Record) -> None:
    array = ran.ids["array"]
    for task in range(1, 6):
        _right(ran, f"{array}_{task}", [(ran.ids[f"{array}_{task}"], 1)], record_property)


def test_requeued_job_is_one_with_both_its_runs(ran: Ran, record_property: Record) -> None:
    again = ran.ids["again"]

    _right(ran, again, [(again, 1)], record_property, times=2)


def test_components_of_a_heterogeneous_job_are_told_apart_and_its_id_is_all_of_it(
    ran: Ran, record_property: Record
) -> None:
    whole = ran.ids["whole"]
    first, second = (ran.ids[f"{whole}+0"], 1), (ran.ids[f"{whole}+1"], 2)

    _right(ran, f"{whole}+0", [first], record_property)
    _right(ran, f"{whole}+1", [second], record_property)
    _right(ran, whole, [first, second], record_property)


def test_job_of_nine_seconds_has_held_nine_seconds(ran: Ran, record_property: Record) -> None:
    short = ran.ids["short"]

    _right(ran, short, [(short, 1)], record_property)


def test_job_is_told_of_once_at_a_time_and_by_the_same_labels_while_slurmctld_is_slow(ran: Ran) -> None:
    """It answers half a second after it was asked about each, with a name that the prolog did not know."""
    told = (
        'max by (slurm_job) (max_over_time(count by (slurm_job, instance) (gpu_workload_info{slurm_job!=""})[15m:1s]))'
    )
    names = 'max by (slurm_job) (last_over_time(gpu_workload_info{job_name="wrap"}[15m]))'
    allocated = "last_over_time(gpu_workload_allocated_gpus[15m])"
    owners = f"count by (slurm_job) (count by (slurm_job, user, account, partition) ({allocated}))"

    for query in (told, names, owners):
        found = {row["metric"]["slurm_job"]: row["value"][1] for row in _answer(ran.url, query)}
        assert found == dict.fromkeys(set(ran.ids.values()), "1"), query


def test_epilog_times_are_of_every_run(ran: Ran) -> None:
    """What the others compare with: two of the requeued job, one of every other."""
    for name, raw in ran.ids.items():
        if name not in {"array", "whole"}:
            file = Path(ran.kit.work / f"epilog.{raw}")
            assert len(file.read_text().split()) == (2 if name == "again" else 1), name
