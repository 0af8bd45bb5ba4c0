"""`make scale-month`: what boards over 30 days and a year ask of a Prometheus that has the roll-ups of 1,000 nodes.

A part of the owners and workloads of 1,000 nodes with 10,000 jobs a day is written, with values that vary, and figures
are scaled by series to all of them: upper bounds, because the fixed cost of a query is scaled as well. In CPU seconds.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TextIO

from exporter.tools.report.promql import WORKLOAD_PRICE
from tests.contract.dashboards.reading import panels
from tests.e2e.dashboards.history import Span
from tests.e2e.dashboards.reader import Reader
from tests.scale.measure import cpu
from tests.stack import program, prometheus

DAY, HOUR = 86400, 3600
TEAMS, USERS, WORKLOADS = 40, 200, 300_000
"""Of 1,000 nodes in a month. A team or user has one class of work on two models."""
MODELS = ("NVIDIA H100", "NVIDIA A100")
STATES = (
    "computing", "memory_bound", "host_bound", "wait_cpu", "wait_data", "wait_storage", "wait_collective",
    "allocated_idle", "wait_requests", "unobserved",
)  # fmt: skip
_MODELS = tuple({"model": model} for model in MODELS)
_SUPPLY = ("allocated", "reclaimable", "unhealthy", "out of service", "no CPU or memory", "fragmented", "free")
_RATES = ("gpu_waste", *(f"gpu_workload_{name}" for name in ("allocated", "observed", "busy", "good", "used")))
_PER_WORKLOAD = (
    *(f"workload:{name}:rate5m" for name in _RATES),
    WORKLOAD_PRICE,
    "workload_model:gpu_allocation_ratio:sum",
)
_JOB_SECONDS = 4 * 3600
_LISTED = 8
"""Of so many workloads one is in the top lists: 200 of the 1,670 that run at a time."""
_REPEATS = 5
_SLOWEST = 5
YEAR_BOARDS, MONTH_BOARDS = ("showback",), ("showback", "waste", "capacity")

Labels = Mapping[str, str]


class Text:
    """OpenMetrics with timestamps, a family at a time."""

    def __init__(self, out: TextIO, draw: random.Random) -> None:
        self._out = out
        self._draw = draw
        self.samples = 0

    def family(self, name: str) -> None:
        self._out.write(f"# TYPE {name} unknown\n")

    def series(self, name: str, labels: Labels, times: range) -> None:
        text = ",".join(f'{key}="{value}"' for key, value in labels.items())
        self.samples += len(times)
        self._out.writelines(f"{name}{{{text}}} {self._draw.uniform(1, 900):.2f} {at}\n" for at in times)


def write_teams(out: TextIO, now: int, teams: int, days: int) -> int:
    """Write the roll-ups of teams. Return the samples."""
    text = Text(out, random.Random(1))  # noqa: S311 - values
    _level(text, "team", teams, range(now - days * DAY, now + 1, HOUR))
    out.write("# EOF\n")
    return text.samples


def write_month(out: TextIO, now: int, teams: int, users: int, workloads: int) -> int:
    """Write all others of 30 days. Return the samples."""
    draw = random.Random(2)  # noqa: S311 - values
    text = Text(out, draw)
    for level, count in (("account", teams), ("user", users), ("cluster", 1)):
        _level(text, level, count, range(now - 30 * DAY, now + 1, HOUR))
    for name, labels in _of_cluster():
        text.family(name)
        for each in labels:
            step = 60 if name.startswith(("cluster:gpu_exporters", "cluster_state")) else 300
            text.series(name, {"cluster": "c1", **each}, range(now - 30 * DAY, now + 1, step))
    _workloads(text, now, [now - draw.randrange(HOUR, 30 * DAY) for _ in range(workloads)])
    out.write("# EOF\n")
    return text.samples


def _workloads(text: Text, now: int, starts: Sequence[int]) -> None:
    lives = [range(start, min(start + _JOB_SECONDS, now + 1)) for start in starts]
    for name in _PER_WORKLOAD:
        text.family(name)
        for number, life in enumerate(lives):
            text.series(name, _workload(number), life[::60])
    text.family("workload_state:gpu_workload_gpu_seconds:rate5m")
    for number, life in enumerate(lives):
        for state in STATES[:4]:
            labels = {**_workload(number), "state": state}
            text.series("workload_state:gpu_workload_gpu_seconds:rate5m", labels, life[::60])
    text.family("workload:gpu_waste_hours:topk1h")
    for number in range(0, len(starts), _LISTED):
        labels = {"cluster": "c1", "workload": _workload(number)["workload"]}
        text.series("workload:gpu_waste_hours:topk1h", labels, lives[number][::HOUR])


def _level(text: Text, level: str, count: int, times: range) -> None:
    for name, states in (
        (f"{level}_state:gpu_owner_gpu_seconds:increase", STATES),
        (f"{level}:gpu_owner_gpu_seconds:increase", ("",)),
        (f"{level}:gpu_owner_busy_gpu_seconds:increase", ("",)),
        (f"{level}:gpu_owner_energy_joules:increase", ("",)),
    ):
        text.family(name)
        for number in range(count):
            for model in MODELS:
                for state in states:
                    own = {} if level == "cluster" else {level: f"{level}{number}"}
                    labels = {"cluster": "c1", **own, "class": "batch", "model": model}
                    text.series(name, {**labels, **({"state": state} if state else {})}, times)
    for name, states in (
        (f"{level}_state:gpu_owner_cost:increase", STATES),
        (f"{level}:gpu_owner_cost:increase", ("",)),
        (f"{level}:gpu_owner_busy_cost:increase", ("",)),
    ):
        text.family(name)
        for own in ({level: f"{level}{number}"} for number in range(count)) if level != "cluster" else _MODELS:
            for state in states:
                text.series(name, {"cluster": "c1", **own, **({"state": state} if state else {})}, times)


def _of_cluster() -> Iterator[tuple[str, list[Labels]]]:
    yield "cluster:gpu_exporters:count", [{}]
    yield "cluster_state:gpu_state_seconds:rate5m", [{"state": state} for state in (*STATES, "free")]
    yield "cluster:gpu_demand:sum", [{}]
    yield "cluster:gpu_pending:sum", [{}]
    yield "cluster_supply:gpus:sum", [{"supply": name} for name in _SUPPLY]
    yield "cluster_answer:gpu_shortage:sum", [{"answer": name} for name in ("repair", "tune", "buy")]
    yield "model:gpu_up:count", [{"model": name} for name in MODELS]
    yield "gpu:price_per_hour", [{"cluster": "c1", "model": name, "currency": "USD"} for name in MODELS]
    yield "gpu_info", [{"model": MODELS[0], "instance": "n1:9836", "uuid": "GPU-1"}]
    yield "gpu_exporter_build_info", [{"instance": "n1:9836"}]


def _workload(number: int) -> Labels:
    user = number % 200
    own = {"workload": f"slurm:{number}", "kind": "slurm", "slurm_job": f"{number}", "user": f"user{user}"}
    return {"cluster": "c1", **own, "account": f"account{user % 40}"}


def measure(url: str, now: int, boards: tuple[str, ...], days: int, scales: Labels) -> None:
    """Print what each board takes over so many days, and its dearest query; as measured and scaled."""
    reader = Reader(url, Span(now - days * DAY, now, max(60, days * DAY // 1000)), {})
    for name in boards:
        begun = cpu(url)
        for _ in range(_REPEATS):
            chosen = reader.values(name)
        variables = (cpu(url) - begun) / _REPEATS
        reads = replace(reader, chosen=chosen)
        scale = scales["workload"] if "workload" in chosen or "shown" in chosen else "1"
        costs = {"variables": (variables, variables * float(scale))}
        for panel in panels(name):
            for target in panel["targets"]:
                before = cpu(url)
                for _ in range(_REPEATS):
                    reads.ask(panel["title"], target, chosen)
                own = (cpu(url) - before) / _REPEATS
                # The chosen workloads are as many in any fleet.
                owners = ("user", "team", "account")
                scale = next((scales[key] for key in owners if re.search(rf"\b{key}(_state)?:", target["expr"])), "1")
                if "workload_state:" in target["expr"] and "slurm:" not in reads.filled(target["expr"], chosen):
                    scale = scales["workload"]
                costs[f"{panel['title']} / {target['refId']}"] = (own, own * float(scale))
        whole, scaled = (sum(each[number] for each in costs.values()) for number in (0, 1))
        for each in sorted(costs, key=lambda each: -costs[each][1])[:_SLOWEST]:
            sys.stdout.write(f"    {costs[each][0]:.3f} s, scaled {costs[each][1]:.2f} s  {each}\n")
        sys.stdout.write(f"{name:9} {days:4} d  {whole:6.2f} s, scaled {scaled:6.2f} s\n")
        sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--teams", type=int, default=4)
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--workloads", type=int, default=6000)
    parser.add_argument("--days", type=int, default=365)
    options = parser.parse_args()
    now = int(time.time()) // HOUR * HOUR
    with tempfile.TemporaryDirectory(prefix="gpu-month-") as scratch:
        folder = Path(scratch)
        samples = 0
        for write in (
            partial(write_teams, now=now, teams=options.teams, days=options.days),
            partial(write_month, now=now, teams=options.teams, users=options.users, workloads=options.workloads),
        ):
            file = folder / "history.om"
            with file.open("w") as out:
                samples += write(out)
            made = [program("promtool"), "tsdb", "create-blocks-from", "openmetrics", "--quiet"]
            subprocess.run([*made, "--max-block-duration=480h", file, folder / "prometheus"], check=True)
            file.unlink()
        size = sum(each.stat().st_size for each in (folder / "prometheus").rglob("*") if each.is_file())
        sys.stdout.write(f"{samples / 1e6:.1f} M samples, {size / 1e6:.0f} MB\n")
        (folder / "prometheus.yml").write_text("global: {}\n")
        scales = {
            "team": f"{TEAMS / options.teams}",
            "account": f"{TEAMS / options.teams}",
            "user": f"{USERS / options.users}",
            "workload": f"{WORKLOADS / options.workloads}",
        }
        with prometheus(folder / "prometheus.yml", folder, "--storage.tsdb.retention.time=500d") as url:
            measure(url, now, MONTH_BOARDS, 30, scales)
            measure(url, now, YEAR_BOARDS, options.days, scales)
    return 0


if __name__ == "__main__":
    sys.exit(main())
