"""How much of what its links can carry a GPU moved."""

from __future__ import annotations

_GIGABYTES_PER_LANE = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""PCIe, each direction, after line coding (8b/10b, 128b/130b, flits), by generation."""


def pcie_capacity(generation: int | None, width: int | None) -> float | None:
    """Bytes per second each direction; None for a generation not known here."""
    if not generation or not width or generation not in _GIGABYTES_PER_LANE:
        return None
    return _GIGABYTES_PER_LANE[generation] * 1e9 * width


def activity(*links: tuple[float | None, float | None]) -> float | None:
    """The largest of (bytes per second, capacity) as a share, over both directions of PCIe and NVLink; None unknown."""
    known = [traffic / capacity for traffic, capacity in links if traffic is not None and capacity]
    return min(1.0, max(known)) if known else None
