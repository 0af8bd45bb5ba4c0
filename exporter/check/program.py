"""The site's own test of a node's GPUs (diagnostics, bandwidth, burn-in), run where it is asked for."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess

from exporter.check.rule import Finding, Verdict
from exporter.host.text import lines

NAME = "program"
_LONGEST = 200
"""Characters of what it says."""


def finding_of(command: str, seconds: float) -> Finding | None:
    """What the command found: nothing when it ends with 0 in time."""
    words = shlex.split(command)
    try:
        process = subprocess.Popen(  # noqa: S603 - the administrator's own command
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True
        )
    except OSError as error:
        return _finding(f"cannot be run: {error.strerror or error}", words)
    try:
        output, _ = process.communicate(timeout=max(seconds, 0.0))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return _finding(f"does not end within {seconds:.0f} s", words)
    return _finding(_last(output) or f"status {process.returncode}", words) if process.returncode else None


def _finding(output: str, words: list[str]) -> Finding:
    name = os.path.basename(words[0])  # noqa: PTH119 - a name, no path
    return Finding(
        rule=NAME,
        verdict=Verdict.FAILED,
        gpu="",
        uuid="",
        reason=f"{name}: {output}",
        action="Run it by hand and read all it says.",
        short=f"{name[:16]} fails",
        hands=True,
    )


def _last(output: str) -> str:
    found = [line.strip() for line in lines(output) if line.strip()]
    return found[-1][:_LONGEST] if found else ""
