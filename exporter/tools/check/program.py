"""The site's own test of a node's GPUs (diagnostics, bandwidth, burn-in), run where it is asked for."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence

from exporter.faults.rule import Finding, Verdict
from exporter.host import program
from exporter.host.text import lines

NAME = "program"
_MEBIBYTES = 16
"""Limit of its output."""
_LONGEST = 200
"""Characters of what it reports."""


class NotRunError(Exception):
    """The command could not be started: nothing is known of the GPUs by it."""


def command(value: str) -> tuple[str, ...]:
    """The program and its arguments, split as a shell does it; none where the text is empty."""
    try:
        return tuple(shlex.split(value))
    except ValueError as error:
        raise ValueError(f"a command as a shell takes it ({error})") from None


def finding_of(words: Sequence[str], seconds: float) -> Finding | None:
    """Return what the command found: nothing when it ends with 0 in time. Raises NotRunError."""
    try:
        done = program.run(words, seconds, _MEBIBYTES << 20, together=True)
    except TimeoutError:
        return _program_finding(f"does not end within {seconds:.0f} s", words)
    except OSError as error:
        raise NotRunError(f"{_program_name(words)}: cannot be run: {error.strerror or error}") from None
    if done.cut:
        return _program_finding(f"prints more than {_MEBIBYTES} MiB", words)
    output = [line.strip() for line in lines(done.output.decode("utf-8", "replace")) if line.strip()]
    last = output[-1][:_LONGEST] if output else f"status {done.status}"
    return _program_finding(last, words) if done.status else None


def _program_finding(reason: str, words: Sequence[str]) -> Finding:
    name = _program_name(words)
    return Finding(
        rule=NAME,
        verdict=Verdict.FAILED,
        gpu="",
        uuid="",
        reason=f"{name}: {reason}",
        action="Run it by hand and read all it prints.",
        short=f"{name[:16]} fails",
        hands=True,
    )


def _program_name(words: Sequence[str]) -> str:
    return os.path.basename(words[0])  # noqa: PTH119 - a name, no path
