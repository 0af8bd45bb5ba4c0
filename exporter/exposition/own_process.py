"""The `process_…` families of the exporter itself, as every Prometheus client library names them."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from typing import NamedTuple

from exporter.exposition.number import go_number

_OWN = "/proc/self"
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_EOF = "# EOF\n"
_LONGEST = 4096
"""Bytes of a line in /proc/PID/stat, and more."""


class _Row(NamedTuple):
    name: str
    help: str
    value: float
    counter: bool = False


class OwnProcess:
    """Reads this process at each scrape."""

    def __init__(self) -> None:
        self._booted = _boot_time()

    def text(self, *, openmetrics: bool) -> str:
        """The end of a page."""
        lines = [line for row in self._rows() for line in _lines(row, openmetrics=openmetrics)]
        return "".join(lines) + (_EOF if openmetrics else "")

    def _rows(self) -> Iterator[_Row]:
        if not self._booted:
            return
        try:
            words = _stat().rpartition(b")")[2].split()
            started = float(words[19]) / _TICKS + self._booted
            cpu = float(words[11]) / _TICKS + float(words[12]) / _TICKS
            yield _Row("process_virtual_memory_bytes", "Virtual memory size in bytes.", float(words[20]))
            yield _Row("process_resident_memory_bytes", "Resident memory size in bytes.", float(words[21]) * _PAGE)
            yield _Row("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", started)
            yield _Row(
                "process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", cpu, counter=True
            )
            count = len(os.listdir(f"{_OWN}/fd"))  # noqa: PTH208 - names alone
            limit = float(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
            yield _Row("process_open_fds", "Number of open file descriptors.", count)
            yield _Row("process_max_fds", "Maximum number of open file descriptors.", limit)
        except (OSError, ValueError, IndexError):
            return  # another kernel, or a /proc that hides it


def _lines(row: _Row, *, openmetrics: bool) -> Iterator[str]:
    name = row.name.removesuffix("_total") if openmetrics else row.name
    yield f"# HELP {name} {row.help}\n"
    yield f"# TYPE {name} {'counter' if row.counter else 'gauge'}\n"
    yield f"{row.name} {go_number(row.value)}\n"


def _boot_time() -> float:
    """Unix seconds; 0 where /proc does not report."""
    try:
        with open("/proc/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123 - once
            return next((float(line.split()[1]) for line in file if line.startswith("btime ")), 0.0)
    except (OSError, ValueError, IndexError):
        return 0.0


def _stat() -> bytes:
    """Read without the layers that open() puts around a descriptor: at each scrape."""
    descriptor = os.open(f"{_OWN}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _LONGEST)
    finally:
        os.close(descriptor)
