"""Evaluates the alerts, as they are shipped, over recorded data: in a real Prometheus, with `for` counted here."""

from __future__ import annotations

import json
import multiprocessing
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

import requests
import yaml

from deploy.prometheus.render import render
from tests.replay.cures import Cure
from tests.replay.plan import HOUR, Plan
from tests.replay.record import record
from tests.replay.recordings import backfill, levels, needed
from tests.stack import program, prometheus

BLOCK = 2 * HOUR
"""promtool reads its whole input once for every two hours of it, so it gets two hours at a time."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
IGNORED = {
    *("GpuTargetsGone", "GpuExporterSimulated", "GpuNodeMaintenance", "GpuDriverSkew", "GpuOwnerWaste"),
    *("GpuWatchdog", "GpuIncident", "GpuIncidentNode", "GpuNodeWithoutExporter"),
}
"""They need what this cluster lacks: an empty Prometheus, a real exporter, Kubernetes, an upgrade, a recording each
minute and alerts that were evaluated at the time; or they always fire."""


@dataclass(frozen=True, slots=True)
class Fired:
    """One alert that fired, from when its `for` was over to when its expression ended. Seconds from the start."""

    alert: str
    labels: dict[str, str]
    begin: float
    end: float


def families() -> set[str]:
    """The exporter's series the alerts ask for."""
    exprs = [rule["expr"] for rule in _rules()]
    exprs += [rule.expr for rule in needed(exprs)]
    return {name for expr in exprs for name in re.findall(r"(?<!:)\bgpu_[a-z0-9_]+\b(?!:)", expr)}


def _rules() -> list[dict[str, Any]]:
    rules = (rule for group in render()["groups"] for rule in group["rules"])
    return [rule for rule in rules if "alert" in rule and rule["alert"] not in IGNORED]


def write(plan: Plan, start: float, interval: float, folder: Path, workers: int = 2) -> Path:
    """Record every node of `plan` from `start` (Unix seconds) into the data of a Prometheus; its folder.

    A node that `folder` has already is not recorded again.
    """
    asked = yaml.safe_dump({"interval": interval, "series": sorted(families()), "scenario": plan.scenario(start)})
    scenario, data = folder / "scenario.yaml", folder / "prometheus"
    if (folder / "asked.yaml").exists() and (folder / "asked.yaml").read_text() != asked:
        raise ValueError(f"{folder}: holds a recording of another plan, interval or set of series")
    (folder / "asked.yaml").write_text(asked)
    scenario.write_text(yaml.safe_dump(plan.scenario(start)))
    data.mkdir(exist_ok=True)
    missing = [node for node in plan.nodes if not (folder / f"{node}.done").exists()]
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        done = [pool.submit(_write_node, plan, node, start, interval, folder) for node in missing]
        for future in done:
            future.result()
    return data


def _write_node(plan: Plan, node: str, start: float, interval: float, folder: Path) -> None:
    times = [start + step * interval for step in range(int(plan.hours * HOUR / interval))]
    down = [
        range(int(start + each.at), int(start + each.end))
        for each in plan.planted
        if each.node == node and each.kind.name == "exporter-down"
    ]
    cures = [
        Cure(each.cure, each.gpu or 0, start + each.mended) for each in plan.planted if each.node == node and each.cure
    ]
    lines = record(folder / "scenario.yaml", node, times, families(), down, cures)
    blocks = folder / node
    shutil.rmtree(blocks, ignore_errors=True)
    blocks.mkdir()
    for number, chunk in groupby(lines, key=lambda line: int(float(line.rpartition(" ")[2]) // BLOCK)):
        path = folder / f"{node}-{number}.txt"
        with path.open("w") as text:
            text.writelines(chunk)
            text.write("# EOF\n")
        subprocess.run(
            [program("promtool"), "tsdb", "create-blocks-from", "openmetrics", "-q", path, blocks],
            check=True,
            capture_output=True,
        )
        path.unlink()
    for block in blocks.iterdir():
        block.rename(folder / "prometheus" / block.name)
    (folder / f"{node}.done").touch()


def evaluate(plan: Plan, start: float, step: float, folder: Path) -> Iterator[Fired]:
    """Every alert that fires over the whole time. What `folder` has of a rule as it is now is not asked again."""
    config, found = folder / "prometheus.yaml", folder / "fired"
    config.write_text("{}\n")
    found.mkdir(exist_ok=True)
    rules, options = _rules(), ("--storage.tsdb.retention.time=10y", "--query.timeout=10m")
    span = {"start": start, "end": start + plan.hours * HOUR - step, "step": step}
    if not (folder / "recorded").exists():
        for level in levels(needed([rule["expr"] for rule in rules])):
            with prometheus(config, folder, *options) as url:
                backfill(url, level, span, folder)
        (folder / "recorded").touch()
    with prometheus(config, folder, *options) as url:
        for rule in rules:
            asked = f"{rule['alert']} {rule['for']} {step} {rule['expr']}"
            path = found / f"{sha256(asked.encode()).hexdigest()}.json"
            if not path.exists():
                fired = _alert(url, rule["alert"], rule["expr"], _seconds(rule["for"]), (start, plan.hours, step))
                path.with_suffix(".part").write_text(json.dumps([asdict(each) for each in fired]))
                path.with_suffix(".part").replace(path)
            yield from (Fired(**each) for each in json.loads(path.read_text()))


def _alert(url: str, name: str, expr: str, wait: float, span: tuple[float, float, float]) -> Iterator[Fired]:
    start, hours, step = span
    window = {"start": start, "end": start + hours * HOUR - step, "step": step}
    answer = requests.post(f"{url}/api/v1/query_range", data={"query": expr, **window}, timeout=900).json()
    if answer["status"] != "success":
        raise RuntimeError(f"{name}: {answer}")
    for series in answer["data"]["result"]:
        labels = {key: text for key, text in series["metric"].items() if key != "__name__"}
        for begin, end in _runs([float(time) for time, _ in series["values"]], step):
            if end - begin >= wait:
                yield Fired(name, labels, begin + wait - start, end - start)


def _runs(times: Iterable[float], step: float) -> Iterator[tuple[float, float]]:
    """Stretches of time without a gap."""
    begin = last = None
    for time in times:
        if begin is None or last is None or time - last > step * 1.5:
            if begin is not None and last is not None:
                yield begin, last
            begin = time
        last = time
    if begin is not None and last is not None:
        yield begin, last


def _seconds(duration: str) -> float:
    return float(duration[:-1]) * _UNITS[duration[-1]]
