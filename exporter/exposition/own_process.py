"""The `process_…` families of the exporter itself, as every Prometheus client library names them."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator

from exporter.exposition.number import go_number

_OWN = "/proc/self"
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_EOF = "# EOF\n"
_LONGEST = 4096
"""Bytes of a line in /proc/PID/stat, and more."""


_FAMILIES = (
    ("process_virtual_memory_bytes", "Virtual memory size in bytes."),
    ("process_resident_memory_bytes", "Resident memory size in bytes."),
    ("process_start_time_seconds", "Start time of the process since unix epoch in seconds."),
    ("process_cpu_seconds_total", "Total user and system CPU time spent in seconds."),
    ("process_open_fds", "Number of open file descriptors."),
    ("process_max_fds", "Maximum number of open file descriptors."),
)


class OwnProcess:
    """Reads this process at each scrape."""

    def __init__(self) -> None:
        self._booted = _boot_time()
        self._forms = tuple(
            tuple(_form(name, help_, openmetrics=openmetrics) for name, help_ in _FAMILIES)
            for openmetrics in (False, True)
        )

    def text(self, *, openmetrics: bool) -> str:
        """The end of a page, with as many of the families as /proc tells."""
        values = zip(self._forms[openmetrics], self._values(), strict=False)
        return "".join([form % go_number(value) for form, value in values]) + (_EOF if openmetrics else "")

    def _values(self) -> Iterator[float]:
        """Of the families, in their order."""
        if not self._booted:
            return
        try:
            words = _stat().rpartition(b")")[2].split()
            yield float(words[20])
            yield float(words[21]) * _PAGE
            yield float(words[19]) / _TICKS + self._booted
            yield float(words[11]) / _TICKS + float(words[12]) / _TICKS
            yield _descriptors()
            yield resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        except (OSError, ValueError, IndexError):
            return  # another kernel, or a /proc that hides it


def _form(name: str, help_: str, *, openmetrics: bool) -> str:
    """Header and line of a family, but for its value."""
    kind = "counter" if name.endswith("_total") else "gauge"
    shown = name.removesuffix("_total") if openmetrics else name
    return f"# HELP {shown} {help_}\n# TYPE {shown} {kind}\n{name} %s\n"


def _boot_time() -> float:
    """Unix seconds; 0 where /proc does not report."""
    try:
        with open("/proc/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123 - once
            return next((float(line.split()[1]) for line in file if line.startswith("btime ")), 0.0)
    except (OSError, ValueError, IndexError):
        return 0.0


def _descriptors() -> int:
    """Kernels from 6.2 on tell how many there are as the folder's size; listing hundreds takes a tenth of a page."""
    folder = f"{_OWN}/fd"
    return os.stat(folder).st_size or len(os.listdir(folder))  # noqa: PTH116, PTH208 - at each scrape; names alone


def _stat() -> bytes:
    """Read without the layers that open() puts around a descriptor: at each scrape."""
    descriptor = os.open(f"{_OWN}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _LONGEST)
    finally:
        os.close(descriptor)
