"""Files of root, or of this exporter's user: what anybody else can write must not name containers."""

from __future__ import annotations

import os
from pathlib import Path

from exporter.attribution.background_source import SourceError
from exporter.host.text import read_regular


def read(path: Path, limit: int) -> bytes | None:
    """The whole file; None where there is none. Raises SourceError and OSError."""
    try:
        content = read_regular(path, limit + 1, {0, os.geteuid()})
    except (FileNotFoundError, NotADirectoryError):
        return None
    if content is None:
        raise SourceError(f"{path}: not a plain file of root")
    if len(content) > limit:
        raise SourceError(f"{path}: more than {limit} bytes")
    return content
