"""The kernel log, read record by record: /dev/kmsg, or a file that stands in for it."""

from __future__ import annotations

import os
import select
from pathlib import Path
from types import TracebackType

_RECORD = 8192
"""The longest record of the kernel."""
_MAX_RECORDS = 1000
"""Records taken in one go."""


class KernelLog:
    """A context manager. Raises OSError where the log cannot be opened."""

    def __init__(self, path: Path, *, past: bool) -> None:
        """`past`: from the oldest record that is still there; otherwise only what comes from now on."""
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._rest = ""
        if not past:
            os.lseek(self._descriptor, 0, os.SEEK_END)

    def __enter__(self) -> KernelLog:  # noqa: PYI034 - typing.Self is younger than Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def wait(self, seconds: float) -> bool:
        """Whether there is something to read within `seconds`. A plain file at its end reports it too."""
        return bool(select.select([self._descriptor], [], [], seconds)[0])

    def read(self) -> list[str]:
        """The records there now: /dev/kmsg gives one a read, and EAGAIN after the last."""
        found: list[str] = []
        while len(found) < _MAX_RECORDS:
            try:
                data = os.read(self._descriptor, _RECORD)
            except BlockingIOError:
                break
            except BrokenPipeError:  # records were overwritten before they were read: go on with the next
                continue
            if not data:
                break
            *lines, rest = (self._rest + data.decode(errors="replace")).split("\n")
            self._rest = rest[-_RECORD:]
            found += lines
        return found
