#!/usr/bin/env python3
"""Nodes with GPUs as sinfo shows nodes: how many are given away, how busy they are, what is wrong with them.

    gpuinfo.py [--prometheus.url http://prometheus:9090] [--partition gpu]

Needs Python 3.8, scontrol and a Prometheus that scrapes gpu-exporter. Columns that Prometheus does not report are
`-`; while it is away so are all of them, with one line on standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

_FIELD = re.compile(r"(?:^|\s)(NodeName|State|Partitions|Gres|GresUsed)=(\S*)")
_HEAD = ("NODE", "PARTITION", "STATE", "GPUS", "ALLOC", "BUSY", "ALLOCATED_IDLE", "FAULTS")
_GPUS = re.compile(r"(?:^|,)gpu(?::[^,:]*[^,:0-9][^,:]*|:[0-9]+(?=:))?(?::([0-9]+))?(?=,|$)")

_ALLOCATED_IDLE = 'rate(gpu_state_seconds_total{state="allocated_idle"}[5m])'


def _host(series: str) -> str:
    """Return the label `host`: what targets.py calls the node, else the first part of the target's name."""
    by_target = f'label_replace({series}, "host", "$1", "instance", "([^.:]+).*")'
    return f'label_replace({by_target}, "host", "$1", "node", "(.+)")'


def _once(series: str, *labels: str) -> str:
    """One series of each GPU, however many jobs scrape its node."""
    return f"max by ({', '.join(('host', 'gpu', 'uuid', *labels))}) ({_host(series)})"


QUERIES: Mapping[str, str] = {
    "busy": f"avg by (host) ({_once('gpu_utilization_ratio')})",
    "allocated_idle": f"sum by (host) ({_once(_ALLOCATED_IDLE)})",
    "faults": f"count by (host) ({_once('gpu_fault_timestamp_seconds', 'fault', 'evidence')})",
}
_MAX_BYTES = 16 << 20
_URL, _SETTINGS = "GPU_EXPORTER_PROMETHEUS_URL", "/etc/default/gpu-exporter-report"


class PrometheusError(Exception):
    """One line: why there is no answer."""


def gpus(gres: str) -> int:
    """GPUs of a list such as gpu:h100:8(S:0-1),shard:32 or gpu:h100:2(IDX:0,4)."""
    return sum(int(count or 1) for count in _GPUS.findall(re.sub(r"\([^)]*\)", "", gres)))


def nodes(text: str, partition: str = "") -> Iterable[Mapping[str, str]]:
    """Fields of each node with GPUs in what `scontrol -o -d show nodes` prints: one a line."""
    for line in text.splitlines():
        found = dict(reversed(_FIELD.findall(line)))
        of_partition = not partition or partition in found.get("Partitions", "").split(",")
        if found.get("NodeName") and gpus(found.get("Gres", "")) and of_partition:
            yield found


def by_node(answer: Any) -> Mapping[str, float]:
    """Values by node of Prometheus' answer. Raises PrometheusError where it is none."""
    try:
        return {each["metric"].get("host", ""): float(each["value"][1]) for each in answer["data"]["result"]}
    except (TypeError, KeyError, IndexError, ValueError, AttributeError):
        raise PrometheusError("not the answer of a Prometheus") from None


def ask(url: str, query: str) -> Mapping[str, float]:
    """Raises PrometheusError."""
    where = f"{url.rstrip('/')}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with urllib.request.urlopen(where, timeout=10) as response:  # noqa: S310 - http or https, as main sees to
            return by_node(json.loads(response.read(_MAX_BYTES)))
    except (OSError, ValueError) as error:
        raise PrometheusError(f"{url}: {error}") from None


def rows(found: Iterable[Mapping[str, str]], values: Mapping[str, Mapping[str, float]]) -> Iterable[Sequence[str]]:
    for node in sorted(found, key=lambda each: each["NodeName"]):
        own = {name: _of(numbers, node["NodeName"]) for name, numbers in values.items()}
        known = own.get("busy") is not None
        yield (
            node["NodeName"],
            node.get("Partitions") or "-",
            node.get("State", "-").lower(),
            str(gpus(node.get("Gres", ""))),
            str(gpus(node.get("GresUsed", ""))),
            _shown(own.get("busy"), "{:.0%}"),
            _shown(own.get("allocated_idle"), "{:.1f}"),
            _shown(own.get("faults") or (0.0 if known and values.get("faults") is not None else None), "{:.0f}"),
        )


def _of(numbers: Mapping[str, float], node: str) -> float | None:
    """Slurm may have a node's full domain name where Prometheus has the short one, and the other way round."""
    alike = [host for host in numbers if f"{host}.".startswith(f"{node}.") or f"{node}.".startswith(f"{host}.")]
    return numbers.get(alike[0] if node not in numbers and len(alike) == 1 else node)


def _shown(number: float | None, form: str) -> str:
    return "-" if number is None else form.format(number)


def table(lines: Iterable[Sequence[str]]) -> str:
    every = [_HEAD, *lines]
    widths = [max(len(line[place]) for line in every) for place in range(len(_HEAD))]
    return "".join(
        "  ".join(f"{cell:<{widths[place]}}" for place, cell in enumerate(line)).rstrip() + "\n" for line in every
    )


def told(url: str) -> tuple[Mapping[str, Mapping[str, float]], str]:
    """Return what Prometheus reports by column, and why the rest is missing."""
    values: dict[str, Mapping[str, float]] = {}
    try:
        for name, query in QUERIES.items():
            values[name] = ask(url, query)
    except PrometheusError as error:
        return values, str(error)
    return values, ""


def usual_url() -> str:
    """Return the Prometheus of the environment, else of the settings that jobstats reads."""
    try:
        file = Path(os.environ.get("GPU_EXPORTER_REPORT_SETTINGS", _SETTINGS))
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(rf"^{_URL}=[\"']?([^\"'\s]+)", text, re.MULTILINE)
    return os.environ.get(_URL) or (found[1] if found else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    url = usual_url() or "http://127.0.0.1:9090"
    parser.add_argument("--prometheus.url", dest="url", default=url, help=f"Prometheus to ask (default: {url})")
    parser.add_argument("--partition", default="", help="only nodes of this partition")
    parser.add_argument("--scontrol", default="scontrol", help="scontrol to ask")
    given = parser.parse_args()
    if not given.url.startswith(("http://", "https://")):
        parser.error(f"--prometheus.url: expected http://HOST or https://HOST, got {given.url!r}")
    try:
        command = [given.scontrol, "-o", "-d", "show", "nodes"]
        shown = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=60, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"gpuinfo: {error}\n")
        return 1
    values, missing = told(given.url)
    if missing:
        sys.stderr.write(f"gpuinfo: {missing}\n")
    sys.stdout.write(table(rows(nodes(shown, given.partition), values)))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
