"""A row as a node answers the accounting service."""

from __future__ import annotations

from typing import Any

from exporter.attribution.owner import Owner

T0 = 1_760_000_400.0
ROW: dict[str, Any] = {
    "seq": 1, "allocation": "77", "start": T0, "end": T0 + 60, "facts": {"owner": Owner("", "")}, "model": "A100",
    "profile": "", "hour": int(T0 // 3600), "until": T0 + 60, "used": 0.0, "joules": 0.0, "states": {"computing": 60.0},
}  # fmt: skip
"""One minute of a GPU without an owner."""
