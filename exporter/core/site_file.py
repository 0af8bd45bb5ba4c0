"""Files that the site writes for the exporter (configuration, credentials, captures): read whole, of bounded size."""

from __future__ import annotations

from pathlib import Path

_KIB, _MIB = 1 << 10, 1 << 20


class SiteFileError(ValueError):
    """What is wrong with the file, in words that follow its name."""


def read(path: Path, limit: int) -> str:
    """The text of a file of at most `limit` bytes. Raises SiteFileError: a device without end is not read for ever."""
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise SiteFileError(error.strerror or str(error)) from None
    except ValueError:  # a NUL in its name
        raise SiteFileError("not the name of a file") from None
    if len(content) > limit:
        raise SiteFileError(f"larger than {limit // _MIB} MiB" if limit >= _MIB else f"larger than {limit // _KIB} KiB")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise SiteFileError(f"not UTF-8: {error.reason} at byte {error.start}") from None
