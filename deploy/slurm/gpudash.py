#!/usr/bin/env python3
"""GPUs as a grid in the terminal: a row for each GPU, a column for each moment, in each cell user:utilization.

    gpudash.py [--prometheus.url http://prometheus:9090] [--hours 6] [-u alice] [--node 'gpu1.*']

As many columns as the terminal has room for, so that 80 are enough; the last one is now. Colours only on a terminal,
and not where NO_COLOR is set. Needs Python 3.8 and a Prometheus that scrapes gpu-exporter.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import sys
import time
import urllib.parse
import urllib.request
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

_USER, _CELL = 7, 12
"""Characters of a user's name, and of a cell with the space after it: `aturing:100`."""
_USUAL_NAME, _LONGEST_NAME = 12, 20
"""Characters of a node's name. Names longer than usual take the place of the oldest columns."""
_MAX_COLUMNS = 13
_LOW, _MIDDLE = 0.15, 0.5
"""Utilization below which an allocated GPU is red, and yellow."""
_RED, _YELLOW, _GREEN, _DIM = 31, 33, 32, 2
_MAX_BYTES = 64 << 20
_URL, _SETTINGS = "GPU_EXPORTER_PROMETHEUS_URL", "/etc/default/gpu-exporter-report"
_TARGET = "(?:([0-9.]+)|([^.:]+)[^:]*)(?::[0-9]+)?"
"""An IP address, or the first part of a name."""
_NO_DATA, _FREE = "-", "free"


class PrometheusError(Exception):
    """One line: why there is no answer."""


class Key(NamedTuple):
    node: str
    gpu: int
    """Its index on the node."""


class Cell(NamedTuple):
    users: Sequence[str] = ()
    utilization: float | None = None


def _by_host(series: str) -> str:
    """Return the label `host`: what targets.py calls the node, else the first part of the target's name, or its IP."""
    by_target = f'label_replace({series}, "host", "$1$2", "instance", "{_TARGET}")'
    return f'label_replace({by_target}, "host", "$1", "node", "([^.]+).*")'


def queries(step: int) -> Mapping[str, str]:
    """Utilization of each GPU in the time before a moment, and its users at the moment."""
    return {
        "utilization": f"max by (host, gpu) ({_by_host(f'avg_over_time(gpu_utilization_ratio[{step}s])')})",
        "users": f"max by (host, gpu, user) ({_by_host('gpu_allocation_ratio > 0')})",
    }


def ask(url: str, query: str, start: int, end: int, step: int) -> Sequence[Any]:
    """Raises PrometheusError."""
    values = urllib.parse.urlencode({"query": query, "start": start, "end": end, "step": step})
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/api/v1/query_range?{values}", timeout=20) as response:  # noqa: S310
            found = json.loads(response.read(_MAX_BYTES))["data"]["result"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PrometheusError(f"{url}: {error}") from None
    if not isinstance(found, list):
        raise PrometheusError(f"{url}: not the answer of a Prometheus")
    return cast("Sequence[Any]", found)


def grid(utilization: Iterable[Any], users: Iterable[Any], moments: Sequence[int]) -> Mapping[Key, Sequence[Cell]]:
    """Return a row of cells for each GPU."""
    used: dict[Key, dict[int, float]] = defaultdict(dict)
    owners: dict[Key, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for series in utilization:
        for at, value in series["values"]:
            if math.isfinite(float(value)):
                used[_key(series)][round(float(at))] = float(value)
    for series in users:
        for at, _ in series["values"]:
            owners[_key(series)][round(float(at))].add(series["metric"].get("user") or "?")
    return {
        key: [Cell(sorted(owners[key].get(at, ())), used[key].get(at)) for at in moments]
        for key in sorted({*used, *owners}, key=_natural)
    }


def _key(series: Any) -> Key:
    gpu = series["metric"].get("gpu", "")
    return Key(series["metric"].get("host", ""), int(gpu) if gpu.isdigit() else 0)


def _natural(key: Key) -> tuple[list[tuple[int, str]], int]:
    """gpu2 before gpu10."""
    parts = re.split("([0-9]+)", key.node)
    return [(int(part) if part.isdigit() else 0, part) for part in parts], key.gpu


def text_of(cell: Cell) -> str:
    if cell.utilization is None and not cell.users:
        return _NO_DATA
    percent = "?" if cell.utilization is None else f"{cell.utilization * 100:.0f}"
    if not cell.users:
        return _FREE if percent in ("0", "?") else f"{_FREE}:{percent}"
    who = cell.users[0] if len(cell.users) == 1 else f"{len(cell.users)} users"
    return f"{re.sub(r'[^ -~]', '?', who)[:_USER]}:{percent}"


def colour_of(cell: Cell) -> int:
    if not cell.users or cell.utilization is None:
        return _DIM
    return _RED if cell.utilization < _LOW else _YELLOW if cell.utilization < _MIDDLE else _GREEN


def render(
    rows: Mapping[Key, Sequence[Cell]], moments: Sequence[int], width: int, *, colours: bool, legend: bool
) -> str:
    """Return the newest columns that fit. Each node's name stands at its first GPU only."""
    name = max([4, *(min(len(node), _LONGEST_NAME) for node, _ in rows)])
    newest = -columns_of(width, max(_USUAL_NAME, name))
    lines = [
        "  ".join((f"{'NODE':<{name}}", "GPU", "".join(f"{_clock(at):<{_CELL}}" for at in moments[newest:]))).rstrip()
    ]
    before = ""
    for (node, gpu), cells in rows.items():
        shown = re.sub(r"[^ -~]", "?", node)[:_LONGEST_NAME] if node != before else ""
        drawn = "".join(_painted(cell, colours=colours) for cell in cells[newest:]).rstrip()
        lines.append(f"{shown:<{name}}  {gpu:>3}  {drawn}")
        before = node
    if legend:
        lines += ["", _legend(colours=colours)]
    return "\n".join(lines) + "\n"


def _painted(cell: Cell, *, colours: bool) -> str:
    padded = f"{text_of(cell):<{_CELL}}"
    return f"\x1b[{colour_of(cell)}m{padded}\x1b[0m" if colours else padded


def _legend(*, colours: bool) -> str:
    parts = ((_RED, f"below {_LOW:.0%}"), (_YELLOW, f"below {_MIDDLE:.0%}"), (_GREEN, "busy"), (_DIM, "free"))
    names = [f"\x1b[{number}m{text}\x1b[0m" if colours else text for number, text in parts]
    return "user:utilization in %" + (f" ({', '.join(names)})" if colours else "")


def _clock(at: int) -> str:
    return time.strftime("%H:%M", time.localtime(at))


def columns_of(width: int, name: int) -> int:
    return max(1, min(_MAX_COLUMNS, (width - name - 7) // _CELL))


def _of_user(rows: Mapping[Key, Sequence[Cell]], user: str) -> Mapping[Key, Sequence[Cell]]:
    return {key: cells for key, cells in rows.items() if any(user in cell.users for cell in cells)}


def usual_url() -> str:
    """Return the Prometheus of the environment, else of the settings that jobstats reads."""
    try:
        file = Path(os.environ.get("GPU_EXPORTER_REPORT_SETTINGS", _SETTINGS))
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(rf"^{_URL}=[\"']?([^\"'\s]+)", text, re.MULTILINE)
    return os.environ.get(_URL) or (found[1] if found else "")


def _pattern(text: str) -> re.Pattern[str] | None:
    try:
        return re.compile(text) if text else None
    except re.error:
        raise argparse.ArgumentTypeError(f"no regular expression: {text!r}") from None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--prometheus.url", dest="url", default=usual_url())
    parser.add_argument("-u", "--user", default="", help="only the GPUs of this user")
    parser.add_argument("-n", "--no-legend", action="store_true")
    parser.add_argument("--hours", type=float, default=1.0, help="time that the columns reach back (1)")
    parser.add_argument("--node", type=_pattern, help="only nodes whose names this regular expression matches")
    given = parser.parse_args(arguments)
    if not given.url.startswith(("http://", "https://")) or not 0 < given.hours <= 24 * 31:
        parser.error(f"--prometheus.url is needed (or {_URL} in {_SETTINGS}), and --hours up to 744")
    width = shutil.get_terminal_size((80, 24)).columns
    end, count = int(time.time()), columns_of(width, _USUAL_NAME)
    step = max(60, round(given.hours * 3600 / max(1, count - 1)))
    moments = [end - step * back for back in reversed(range(count))]
    try:
        asked = queries(step)
        found = {name: ask(given.url, query, moments[0], end, step) for name, query in asked.items()}
        rows = grid(found["utilization"], found["users"], moments)
    except (PrometheusError, KeyError, TypeError, ValueError) as error:
        sys.stderr.write(f"gpudash: {error}\n")
        return 1
    if given.node:
        rows = {key: cells for key, cells in rows.items() if given.node.fullmatch(key[0])}
    rows = _of_user(rows, given.user) if given.user else rows
    colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    shown = render(rows, moments, width, colours=colours, legend=not given.no_legend) if rows else "no GPUs\n"
    sys.stdout.write(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
