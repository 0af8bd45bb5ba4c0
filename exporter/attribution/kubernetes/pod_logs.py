"""Names of this node's pods from the kubelet's log directories, `NAMESPACE_NAME_UID`: exact, and no API server needed.

Only the directory's listing is read, never a log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

FOLDER = Path("/var/log/pods")
_PARTS = 3


def parse(names: Iterable[str]) -> Mapping[str, tuple[str, str]]:
    """Pod uid, as its cgroup carries it, to namespace and name; neither of those can hold an underscore."""
    split = (name.split("_") for name in names)
    return {parts[2]: (parts[0], parts[1]) for parts in split if len(parts) == _PARTS and all(parts)}


def read(folder: Path = FOLDER) -> Mapping[str, tuple[str, str]]:
    """Empty where the directory is not there or not ours to list."""
    try:
        return parse(each.name for each in folder.iterdir())
    except OSError:
        return {}
