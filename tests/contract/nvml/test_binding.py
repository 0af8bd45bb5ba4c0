"""The binding without what it names and never uses: a mebibyte of a daemon that runs on every node."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_PROGRAM = """
import sys
from exporter.driver.nvml.binding import nvml
print(*[name for name in ("ctypes.util", "tempfile", "shutil", "lzma", "random") if name in sys.modules])
print(nvml.find_library("c"))
import ctypes.util
print(ctypes.util.find_library("c"), nvml.NVML_SUCCESS)
"""


def test_what_the_binding_never_uses_is_not_loaded_and_can_be_had_later() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], cwd=ROOT, check=True, capture_output=True, text=True)

    loaded, found, again = done.stdout.splitlines()
    assert (loaded, again) == ("", f"{found} 0")
