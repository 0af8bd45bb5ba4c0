"""Writing a job's AdminComment: in slurmdbd, or where there is none in slurmctld."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

_TIMEOUT = 20.0


class CommentError(Exception):
    """One line: what both said."""


@dataclass(frozen=True, slots=True)
class Commenter:
    sacctmgr: str = "sacctmgr"
    scontrol: str = "scontrol"

    def write(self, name: str, comment: str) -> None:
        """`name` is the job as users know it (4711_3): a raw id may be an array's too, and mean all its elements.

        Raises CommentError.
        """
        said = _failure(
            (self.sacctmgr, "-i", "modify", "job", "where", f"jobid={name}", "set", f"AdminComment={comment}")
        )
        if said:
            also = _failure((self.scontrol, "update", f"JobId={name}", f"AdminComment={comment}"))
            if also:
                raise CommentError(f"{said}; {also}")


def _failure(command: Sequence[str]) -> str:
    """What a command that failed said; empty where it did not fail."""
    try:
        done = subprocess.run(  # noqa: S603 - the administrator's command
            command, capture_output=True, timeout=_TIMEOUT, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return f"{command[0]}: no answer within {_TIMEOUT:g} s"
    except OSError as error:
        return f"{command[0]}: {error.strerror or error}"
    if not done.returncode:
        return ""
    text = (done.stderr or done.stdout).decode("utf-8", "replace").strip().partition("\n")[0]
    return f"{command[0]}: {text[:200] or done.returncode}"
