"""Build hook of the wheel: the runbooks as HTML, which the exporter serves. Hatchling loads it (pyproject.toml)."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import (  # type: ignore[import-not-found] # pyright: ignore[reportMissingImports]
    BuildHookInterface,  # pyright: ignore[reportUnknownVariableType]
)

ROOT = Path(__file__).resolve().parents[2]


class RunbooksHook(BuildHookInterface):  # type: ignore[misc] # pyright: ignore[reportUntypedBaseClass]
    """Puts `exporter/web/runbooks.json` into the wheel. An editable one reads that of the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        sys.path.insert(0, str(ROOT))
        from deploy.prometheus import pages  # noqa: PLC0415 - found by the line above

        folder = tempfile.mkdtemp(prefix="gpu-exporter-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        made = pages.write(Path(folder) / "runbooks.json", ROOT)
        build_data["force_include"][str(made)] = pages.SERVED
