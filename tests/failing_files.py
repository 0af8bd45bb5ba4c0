"""The exporter where files fail: `python -m tests.failing_files SHARE [OPTION]...`.

From a few seconds after its start on, SHARE of all it asks the kernel of files fails, each time with another error: as
where a disk dies, a folder is closed, a mount hangs over, descriptors run out, or what was a file is none any more.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any

_CALLS = ("open", "read", "pread", "write", "stat", "lstat", "fstat", "scandir", "listdir", "readlink")
_CHANGES = ("mkdir", "unlink", "replace", "rename")
_ERRORS = (
    *(errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG),
    *(errno.EIO, errno.ESTALE, errno.ESRCH, errno.ENODEV, errno.EMFILE, errno.ENOMEM, errno.EINTR, errno.ENOSPC),
)
_AFTER = 3.0
"""Seconds after the start: what a program needs to begin is another matter."""
_OF_PYTHON = (".py", ".pyc", ".so")
"""Modules that are loaded where they are first used."""


def fail(share: float, seed: int = 7) -> None:
    """From now on files fail in this program."""
    chance, begin = random.Random(seed), time.monotonic() + _AFTER  # noqa: S311 - the same failures in every run

    def failing(call: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*arguments: Any, **options: Any) -> Any:
            place = str(arguments[0]) if arguments else ""
            spared = time.monotonic() < begin or place.endswith(_OF_PYTHON) or "site-packages" in place
            if not spared and chance.random() < share:
                error = chance.choice(_ERRORS)
                raise OSError(error, os.strerror(error), place)
            return call(*arguments, **options)

        return staticmethod(instead)  # pathlib of Python 3.10 keeps some as attributes of a class

    for name in (*_CALLS, *_CHANGES):
        setattr(os, name, failing(getattr(os, name)))
    for module in (builtins, io):
        vars(module)["open"] = failing(vars(module)["open"])


if __name__ == "__main__":
    fail(float(sys.argv.pop(1)))
    from exporter.__main__ import main

    sys.exit(main())
