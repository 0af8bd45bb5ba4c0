"""What the next job of a name could ask for: a small file for each user, which deploy/slurm/job_submit.lua reads."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from exporter.host.text import exists, make_directory, new_file
from exporter.tools.report import words
from exporter.tools.report.summary import Summary

_MAX_NAMES = 50
_LONGEST_NAME = 200
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def uid_of(user: str) -> int | None:
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def update(folder: Path, summaries: Iterable[Summary], uid: Callable[[str], int | None] = uid_of) -> None:
    """Of summaries in the order their jobs ended: the last one of a name counts. Raises OSError."""
    by_user: dict[str, dict[str, str]] = {}
    for each in summaries:
        if each["job_name"]:
            by_user.setdefault(each["user"], {})[_line(each["job_name"])[:_LONGEST_NAME]] = _hint(each)
    for user, hints in by_user.items():
        number = uid(user)
        if number is not None:
            _rewrite(folder / str(number), hints)


def _hint(summary: Summary) -> str:
    """Empty where the job asked for nothing that was much too much."""
    if not summary["next_time"]:
        return ""
    used = words.percent(summary["utilization"])
    return _line(
        f"the last such job, {summary['job']}, used {used} of its GPUs; next time {' '.join(summary['next_time'])}"
    )


def _rewrite(file: Path, hints: Mapping[str, str]) -> None:
    text = file.read_text("utf-8", "replace") if exists(file) else ""
    known = dict(line.split("\t", 1) for line in text.split("\n") if "\t" in line)
    for name, hint in hints.items():
        known.pop(name, None)  # to the end: the oldest are forgotten first
        if hint:
            known[name] = hint
    lines = [f"{name}\t{hint}\n" for name, hint in known.items()][-_MAX_NAMES:]
    new = file.with_name(f".{file.name}.new")
    make_directory(file.parent)
    new.unlink(missing_ok=True)
    with os.fdopen(new_file(new), "w", encoding="utf-8", errors="replace") as content:
        content.write("".join(lines))
    new.replace(file)


def _line(text: str) -> str:
    return _UNPRINTABLE.sub(" ", text)
