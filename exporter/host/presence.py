"""Whether something is there, asked where a folder on the way may be closed to this program."""

from __future__ import annotations

import os


def exists(path: str | os.PathLike[str]) -> bool:
    """Whether something is at `path` that may be seen.

    Path.exists() raises where a folder on the way may not be searched: what is only looked for must not end a pass.
    """
    return os.path.exists(path)  # noqa: PTH110 - see above


def is_folder(path: str | os.PathLike[str]) -> bool:
    """The same of a folder."""
    return os.path.isdir(path)  # noqa: PTH112 - see above
