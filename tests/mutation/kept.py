"""The survivors that are known, one file a folder: the list may only shrink.

A line is `module.function: old code -> new code`, and for a mutant that no test can tell from the code
` # equivalent: why`. Numbers that mutmut gives are left out: they change with every line above.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "survivors"
_EQUIVALENT = " # equivalent: "
_NAME = re.compile(r"(?P<module>.+)\.x(?:ǁ(?P<of>\w+)ǁ|_)(?P<function>\w+?)__mutmut_\d+")


def load(room: str) -> Mapping[str, str]:
    """Each known survivor, with why it is equivalent or an empty text."""
    path = FOLDER / f"{room}.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    pairs = (line.partition(_EQUIVALENT) for line in lines if line)
    return {survivor: why for survivor, _, why in pairs}


def save(room: str, kept: Mapping[str, str]) -> None:
    path = FOLDER / f"{room}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (f"{survivor}{_EQUIVALENT}{why}" if why else survivor for survivor, why in sorted(kept.items()))
    path.write_text("".join(f"{line}\n" for line in lines))


def describe(name: str, diff: str) -> str:
    """A mutant in one line, from mutmut's name of it and its diff."""
    found = _NAME.fullmatch(name)
    if not found:
        return name
    function = f"{found['of']}.{found['function']}" if found["of"] else found["function"]
    old, new = (_changed(diff.splitlines(), sign) for sign in "-+")
    return f"{found['module']}.{function}: {old} -> {new}"


def _changed(lines: Iterable[str], sign: str) -> str:
    changed = (line[1:].strip() for line in lines if line.startswith(sign) and not line.startswith(sign * 3))
    return " ".join(" ".join(changed).split())
