"""A command of the exporter run in the test's own process: fast, and seen by what measures the reach of a test."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator
from typing import NamedTuple

from exporter.__main__ import main


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def run(*arguments: str) -> Done:
    """Not for commands that start threads or fork."""
    out, err = io.StringIO(), io.StringIO()
    with _own_logging(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(arguments)
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
    return Done(status, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _own_logging() -> Iterator[None]:
    """Logging as the command sets it up ends with the command: tests after it read the log, too."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    root.handlers = []  # what pytest reads the log with is not closed by the command
    try:
        yield
    finally:
        for handler in root.handlers:
            handler.close()
        root.handlers = handlers
        root.setLevel(level)
