"""Reports on a real Slurm: the elements of an array of five, and a requeued job.

What each held is what its prologs and epilogs say. Slurm gives components of a heterogeneous job no node in common, and
this cluster has one: their names are a matter of tests/unit/report.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.attribution_kit.slurm_cluster import LACKING, TRACKING
from tests.attribution_kit.slurm_kit import ROOT, Kit
from tests.exporter_process import exporter
from tests.stack import poll, prometheus

pytestmark = [
    pytest.mark.deep,
    pytest.mark.xdist_group("slurm"),
    pytest.mark.skipif(bool(LACKING), reason=LACKING),
]

NO_DATA = 3
EDGES = 1.0
"""GPU seconds that a report may be off for each time a GPU was given and taken back: two passes and a look at files."""


@dataclass(frozen=True)
class Ran:
    """Jobs by what they are, once they have ended."""

    kit: Kit
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

    def held(self, job: str) -> float:
        """Seconds between its prologs and epilogs."""
        begins, ends = (
            [float(line) for line in (self.kit.work / f"{hook}.{job}").read_text().split()]
            for hook in ("prolog", "epilog")
        )
        return sum(end - begin for begin, end in zip(begins, ends, strict=True))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    folder = tmp_path_factory.mktemp("reports")
    kit = Kit(TRACKING[0])
    with kit:
        options = (
            *("--sample.interval", "500ms", "--sample.deadline", "400ms", "--attribution.slurm", "on"),
            *("--attribution.slurm.mapping-dir", f"{kit.work}/gpumap"),
            *("--attribution.slurm.scontrol", str(kit.scontrol)),
            *("--attribution.slurm.gres-conf", f"{kit.work}/etc/gres.conf"),
        )
        environment = {**os.environ, **kit.driver, "SLURMD_NODENAME": kit.node}
        with exporter(folder, *options, environment=environment) as running:
            target = running.url.removeprefix("http://")
            config = folder / "prometheus.yml"
            config.write_text(
                "global: {scrape_interval: 1s}\n"
                f"scrape_configs: [{{job_name: gpu, static_configs: [{{targets: ['{target}']}}]}}]\n"
            )
            with prometheus(config, folder) as url:
                success = "gpu_exporter_attribution_success"
                running.until("the look at the prolog's files", success, 1.0, source="slurm_mapping")
                ids = _run(kit)
                yield Ran(kit, url, ids)


def _run(kit: Kit) -> Mapping[str, str]:
    """All at once, as far as there are GPUs; ends with the last epilog."""
    array = _sbatch(kit, "--array=1-5", "--wrap", "sleep 15")
    again = _sbatch(kit, "--requeue", "--wrap", "sleep 12")
    poll("the prolog of the job that is requeued", lambda: (kit.work / f"prolog.{again}").exists() or None, 60)
    poll("its run", lambda: "RUNNING" in kit.run("squeue", "-h", "-j", again, "-o", "%T") or None, 60)
    kit.run("scontrol", "requeue", again)
    poll("its first end", lambda: (kit.work / f"epilog.{again}").exists() or None, 60)
    poll("its turn", lambda: "PENDING" in kit.run("squeue", "-h", "-j", again, "-o", "%T") or None, 60)
    kit.run("scontrol", "update", f"JobId={again}", "StartTime=now")
    poll("the end of all", lambda: not kit.run("squeue", "-h").strip() or None, 240)
    rows = kit.run("sacct", "-n", "-X", "-P", "-j", array, "-o", "JobID,JobIDRaw").split()
    elements = {name: raw for name, _, raw in (row.partition("|") for row in rows)}
    for raw in (*elements.values(), again):
        poll(f"the epilog of {raw}", functools.partial(_there, kit.work / f"epilog.{raw}"), 60)
    return {"again": again, "array": array, **elements}


def _there(file: Path) -> bool | None:
    return file.exists() or None


def _sbatch(kit: Kit, *arguments: str) -> str:
    return kit.run("sbatch", "--parsable", "-o", "/dev/null", "--gres=gpu:1", *arguments).strip()


Record = Callable[[str, object], None]


def _right(ran: Ran, named: str, raw: str, record: Record, times: int = 1) -> dict[str, Any]:
    """The report by the name people use is of that job, and says what it held."""
    found, held = ran.report(named), ran.held(raw)
    told = found["gpu_hours"] * 3600
    record("measured", f"{named}: held {held:.2f} GPU s by prolog and epilog, {told:.2f} by the report")
    assert told == pytest.approx(held, abs=EDGES * times)
    assert found["gpus"] == 1
    return found


def test_elements_of_an_array_are_told_apart(ran: Ran, record_property: Record) -> None:
    array = ran.ids["array"]
    for task in range(1, 6):
        _right(ran, f"{array}_{task}", ran.ids[f"{array}_{task}"], record_property)


def test_requeued_job_is_one_with_both_its_runs(ran: Ran, record_property: Record) -> None:
    again = ran.ids["again"]

    _right(ran, again, again, record_property, times=2)


def test_epilog_times_are_of_every_run(ran: Ran) -> None:
    """What the others compare with: two of the requeued job, one of every other."""
    for name, raw in ran.ids.items():
        if name != "array":
            file = Path(ran.kit.work / f"epilog.{raw}")
            assert len(file.read_text().split()) == (2 if name == "again" else 1), name
