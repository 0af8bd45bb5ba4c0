"""Log lines as logfmt or JSON, error messages of commands, and the standard streams that they are written to."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TextIO

from exporter.config.kinds import choice
from exporter.config.option import option
from exporter.core.printable import printable, printable_json


@dataclass(frozen=True, kw_only=True)
class LogConfig:
    """`--log.*`."""

    level: str = option(
        "info",
        choice("debug", "info", "warning", "error"),
        "Level from which on messages are logged: debug, info, warning or error.",
        metavar="LEVEL",
    )
    format: str = option("logfmt", choice("logfmt", "json"), "How to log: logfmt or json.", metavar="FORMAT")


class _Structured(logging.Formatter):
    def fields(self, record: logging.LogRecord) -> Iterator[tuple[str, str]]:
        yield "time", self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z")
        yield "level", record.levelname.lower()
        yield "logger", record.name
        yield "msg", record.getMessage()
        if record.exc_info:
            yield "exception", self.formatException(record.exc_info)


class Logfmt(_Structured):
    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={_quote_value(value)}" for key, value in self.fields(record))


class Json(_Structured):
    def format(self, record: logging.LogRecord) -> str:
        return printable_json(dict(self.fields(record)))


def _quote_value(value: str) -> str:
    plain = value and not any(char in value for char in ' "=\\') and value.isprintable()
    return value if plain else printable_json(value)


_PRIORITIES = {logging.CRITICAL: 2, logging.ERROR: 3, logging.WARNING: 4, logging.INFO: 6, logging.DEBUG: 7}


class Journal(logging.Formatter):
    """Another formatter's lines, each with its priority in front as sd-daemon(3) has it; journald takes it off."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        prefix = f"<{_PRIORITIES.get(record.levelno, 6)}>"
        return prefix + self._inner.format(record).replace("\n", f"\n{prefix}")


def to_journal(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Return whether the stream is systemd's connection to journald: JOURNAL_STREAM is its device and inode."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environment.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def configure(config: LogConfig) -> None:
    handler = logging.StreamHandler(sys.stderr)
    formatter = Json() if config.format == "json" else Logfmt()
    handler.setFormatter(Journal(formatter) if to_journal(sys.stderr, os.environ) else formatter)
    logging.basicConfig(level=config.level.upper(), handlers=[handler], force=True)
    logging.getLogger("urllib3").setLevel(logging.WARNING)


def print_error(message: str) -> None:
    """Write it with the name of the program; in the journal it is an error."""
    priority = "<3>" if to_journal(sys.stderr, os.environ) else ""
    sys.stderr.write(f"{priority}gpu-exporter: {printable(message)}\n")


_INPUT, _OUTPUT, _ERROR = range(3)
_UNKNOWN_THERE = "replace"
"""Replacement of a character that the locale's encoding lacks: a question mark, not the end of the program."""


class _Messages(io.TextIOWrapper):
    """Standard error. A message that cannot be written reaches nobody, and changes nothing else."""

    def write(self, text: str, /) -> int:
        with contextlib.suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            super().flush()


def prepare_streams() -> None:
    """Have all three open. Output that was closed fails when it is written, as on a full disk."""
    for number, mode in ((_INPUT, os.O_RDONLY), (_OUTPUT, os.O_RDONLY), (_ERROR, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:  # else the next file would get the number, and what is printed would go there
            os.set_inheritable(os.open(os.devnull, mode), True)  # noqa: FBT003 - as the programs that are started expect
    if sys.stdout is None:
        sys.stdout = open(_OUTPUT, "w", closefd=False)  # noqa: SIM115 - for as long as the process
    if sys.stdout.errors == "strict":
        _replace_unknown()
    if sys.stderr is sys.__stderr__:  # else it is read by who called this
        target = sys.stderr.buffer if sys.stderr else open(_ERROR, "wb", buffering=0, closefd=False)  # noqa: SIM115
        sys.stderr = _Messages(target, errors="backslashreplace", line_buffering=True)


def write_utf8() -> None:
    """Write UTF-8 from now on: for JSON, and for a page that declares it."""
    _replace_unknown("utf-8")


def _replace_unknown(encoding: str | None = None) -> None:
    """Replace letters that an output's encoding lacks; a text reader within this process takes all letters."""
    reconfigure: Any = getattr(sys.stdout, "reconfigure", None)
    if reconfigure:
        reconfigure(encoding=encoding, errors=_UNKNOWN_THERE)
