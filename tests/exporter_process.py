"""The real exporter as a child process, and what its /metrics says."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import requests
from prometheus_client.parser import text_string_to_metric_families

from tests.stack import free_port, poll

ROOT = Path(__file__).resolve().parents[1]
COMMAND = (sys.executable, "-m", "exporter")
FAST = ("--sample.interval", "100ms", "--sample.stale", "1s")
"""Ten cycles a second: what takes ten seconds on a node takes one in a test."""

Series = tuple[str, frozenset[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Metrics:
    """One scrape: values by series, and counters by name."""

    values: Mapping[Series, float]
    counters: frozenset[str]

    def all(self, name: str, **labels: str) -> list[float]:
        wanted = set(labels.items())
        return [value for (found, own), value in self.values.items() if found == name and wanted <= own]

    def one(self, name: str, **labels: str) -> float | None:
        """The value of the only series with these labels, None where there is none."""
        found = self.all(name, **labels)
        assert len(found) <= 1, f"{name}{labels} is {len(found)} series"
        return found[0] if found else None

    def went_back(self, before: Metrics) -> list[str]:
        """Counters that fell or vanished since `before`."""
        return [
            f"{name} {dict(labels)}: {old} -> {self.values.get((name, labels))}"
            for (name, labels), old in before.values.items()
            if name in before.counters and self.values.get((name, labels), -1.0) < old
        ]


def parse(text: str) -> Metrics:
    values: dict[Series, float] = {}
    counters: set[str] = set()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            values[sample.name, frozenset(sample.labels.items())] = sample.value
            if family.type == "counter" and not sample.name.startswith("gpu_process_"):
                counters.add(sample.name)
    return Metrics(values, frozenset(counters))


@dataclass(frozen=True, slots=True)
class Running:
    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def metrics(self, timeout: float = 1.0) -> Metrics:
        """One scrape; it must be answered within a second, whatever the driver does."""
        answer = requests.get(f"{self.url}/metrics", timeout=timeout)
        assert answer.status_code == 200
        return parse(answer.text)

    def until(self, what: str, name: str, value: float | None, **labels: str) -> Metrics:
        """The first scrape in which a series has this value (None: is absent)."""

        def attempt() -> Metrics | None:
            found = self.metrics()
            return found if found.one(name, **labels) == value else None

        return poll(what, attempt, 60)  # a GPU that returns is noticed within 30 s

    def terminate(self, within: float) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=within)


NO_SLURM = {"GPU_EXPORTER_ATTRIBUTION_SLURM": "off"}
"""The Slurm of another test may run on this machine. `--attribution.slurm=on` wins."""


@contextlib.contextmanager
def exporter(
    folder: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    command: Sequence[str] = COMMAND,
) -> Iterator[Running]:
    """A running exporter, up to its first cycle; ended with the block. `command` is what runs it."""
    url = f"http://127.0.0.1:{free_port()}"
    log = folder / "exporter.log"
    listen = ("--web.listen-address", url.removeprefix("http://"))
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *listen, *arguments],
            stdout=output,
            stderr=output,
            env=NO_SLURM | (os.environ if environment is None else environment),
            cwd=ROOT,
        )
    running = Running(url, process, log)
    try:
        poll("the first cycle", lambda: _first_cycle(running), 30)
        yield running
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _first_cycle(running: Running) -> bool | None:
    assert running.process.poll() is None, running.log.read_text()
    try:
        return bool(running.metrics().one("gpu_exporter_sampling_cycles_total")) or None
    except requests.RequestException:
        return None
