"""The exporter itself as a process over the fake driver library, and what it serves."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import requests
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from exporter.attribution.owner import Owner
from tests.stack import free_port


@contextlib.contextmanager
def exporting(options: Mapping[str, object], environment: Mapping[str, str], folder: Path) -> Iterator[str]:
    """URL of the metrics, for as long as the process runs; cycles are quick. Its log is in `folder`."""
    port = free_port()
    given = {
        "web.listen-address": f"127.0.0.1:{port}",
        "sample.interval": "300ms",
        **options,
    }
    command = [sys.executable, "-m", "exporter", *(f"--{name}={value}" for name, value in given.items())]
    with (folder / "exporter.log").open("wb") as log:
        process = subprocess.Popen(command, env=dict(environment), stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}/metrics"
    finally:
        process.terminate()
        process.wait(20)


def series(url: str, name: str) -> list[Sample]:
    try:
        text = requests.get(url, timeout=5).text
    except requests.RequestException:  # not up yet, or this machine is busy
        return []
    lines = "".join(f"{line}\n" for line in text.splitlines() if line.startswith((f"{name}{{", f"{name} ")))
    return [each for family in text_string_to_metric_families(lines) for each in family.samples]


def owner_of(sample: Sample) -> Owner:
    return Owner(**{label: sample.labels[label] for label in Owner._fields})


def shown_holders(url: str) -> dict[str, frozenset[Owner]]:
    found: dict[str, set[Owner]] = defaultdict(set)
    for sample in series(url, "gpu_allocation_ratio"):
        found[sample.labels["uuid"]].add(owner_of(sample))
    return {uuid: frozenset(owners) for uuid, owners in found.items()}


def shown_jobs(url: str) -> dict[int, str]:
    """Slurm's job of each GPU process, by pid."""
    return {int(each.labels["pid"]): owner_of(each).slurm_job for each in series(url, "gpu_process_memory_bytes")}


def total(url: str, name: str, who: Owner, **labels: str) -> float:
    return sum(
        each.value
        for each in series(url, name)
        if owner_of(each) == who and all(each.labels[label] == value for label, value in labels.items())
    )
