"""The start of the single file: unpack to the user's home, or to a folder that is removed at the end without one.

`python single_file.py FILE` puts this module into the file that shiv made.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path


def _can_write_home() -> bool:
    try:
        return os.access(Path.home(), os.W_OK | os.X_OK)
    except RuntimeError:  # the user is in no database
        return False


def _start() -> None:
    import _bootstrap  # type: ignore[import-not-found]  # noqa: PLC0415 - shiv's, within the file

    if "SHIV_ROOT" not in os.environ and not _can_write_home():
        os.environ["SHIV_ROOT"] = tempfile.mkdtemp(prefix="gpu-exporter-")
        atexit.register(shutil.rmtree, os.environ["SHIV_ROOT"], ignore_errors=True)
    _bootstrap.bootstrap()  # pyright: ignore[reportUnknownMemberType]


def _put_into(single: Path) -> None:
    with zipfile.ZipFile(single) as content:
        own = content.getinfo("__main__.py")
    with zipfile.ZipFile(single, "a") as content:  # of two entries with one name the last counts
        entry = zipfile.ZipInfo("__main__.py", own.date_time)
        content.writestr(entry, Path(__file__).read_bytes())


if __name__ == "__main__":
    if zipfile.is_zipfile(sys.path[0]):
        _start()
    else:
        _put_into(Path(sys.argv[1]))
