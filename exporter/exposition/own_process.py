"""The `process_…` families of the exporter itself, as every Prometheus client library names them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from exporter.exposition.number import go_number
from exporter.host.text import lines

_OWN = "/proc/self"
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_EOF = "# EOF\n"


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
            words = _read("stat").rpartition(")")[2].split()
            started = float(words[19]) / _TICKS + self._booted
            cpu = float(words[11]) / _TICKS + float(words[12]) / _TICKS
            yield _Row("process_virtual_memory_bytes", "Virtual memory size in bytes.", float(words[20]))
            yield _Row("process_resident_memory_bytes", "Resident memory size in bytes.", float(words[21]) * _PAGE)
            yield _Row("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", started)
            yield _Row(
                "process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", cpu, counter=True
            )
            limit = next(line.split()[3] for line in lines(_read("limits")) if line.startswith("Max open file"))
            count = len(os.listdir(f"{_OWN}/fd"))  # noqa: PTH208 - names alone
            yield _Row("process_open_fds", "Number of open file descriptors.", count)
            yield _Row("process_max_fds", "Maximum number of open file descriptors.", float(limit))
        except (OSError, ValueError, IndexError, StopIteration):
            return  # another kernel, or a /proc that hides it


def _lines(row: _Row, *, openmetrics: bool) -> Iterator[str]:
    name = row.name.removesuffix("_total") if openmetrics else row.name
    yield f"# HELP {name} {row.help}\n"
    yield f"# TYPE {name} {'counter' if row.counter else 'gauge'}\n"
    yield f"{row.name} {go_number(row.value)}\n"


def _boot_time() -> float:
    """Unix seconds; 0 where /proc does not report."""
    try:
        with open("/proc/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123 - as in `_read`
            return next((float(line.split()[1]) for line in file if line.startswith("btime ")), 0.0)
    except (OSError, ValueError, IndexError):
        return 0.0


def _read(name: str) -> str:
    with open(f"{_OWN}/{name}", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - at each scrape
        return file.read()
