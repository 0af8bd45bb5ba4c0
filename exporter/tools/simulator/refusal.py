"""What a simulated GPU does not support."""

from __future__ import annotations

from typing import Any

from exporter.driver.interface import UnsupportedError


def unsupported(what: str) -> UnsupportedError:
    return UnsupportedError(f"{what}: not supported by this simulated GPU")


def refuse(what: str) -> Any:
    raise unsupported(what)
