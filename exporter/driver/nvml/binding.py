"""nvidia-ml-py, loaded without what it names and never uses.

It imports `find_library` of `ctypes.util`, which brings tempfile, shutil and their compressors: 1 MiB of memory.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any, Final

_UNUSED = "ctypes.util"


def _loaded() -> ModuleType:
    if _UNUSED in sys.modules:
        return importlib.import_module("pynvml")
    stand_in = ModuleType(_UNUSED)
    vars(stand_in)["find_library"] = _find_library
    sys.modules[_UNUSED] = stand_in
    try:
        return importlib.import_module("pynvml")
    finally:
        del sys.modules[_UNUSED]


def _find_library(name: str) -> str | None:
    """The real one, should a release of the binding call it."""
    found: str | None = importlib.import_module(_UNUSED).find_library(name)
    return found


# The binding ships no types; every use of it goes through this name.
nvml: Final[Any] = _loaded()
