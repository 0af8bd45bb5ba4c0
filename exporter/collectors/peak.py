"""What a GPU can compute at most: dense BF16 tensor FLOPs a second, by NVIDIA's data sheet of each product.

Where a sheet has the figure with sparsity alone, it is half of that.
FP16 on GPUs without BF16 (before Ampere). Figures with sparsity, twice as high, are no measure of dense models. A board
that runs at less than its usual power does less; the data sheet's figure is the bound all the same.
"""

from __future__ import annotations

import re

_TERA = 1e12
_PEAKS = tuple(
    (re.compile(pattern), teraflops * _TERA)
    for pattern, teraflops in (
        # name as NVML gives it, more particular names first
        (r"\bGB200\b", 2500),
        (r"\bB200\b", 2250),
        (r"\bB100\b", 1750),
        (r"\bGH200\b", 989.4),
        (r"\bH200 NVL\b", 835.5),
        (r"\bH200\b", 989.4),
        (r"\bH100 NVL\b", 835.5),
        (r"\bH100 PCIe\b", 756),
        (r"\bH100\b", 989.4),
        (r"\bH800 PCIe\b", 756),
        (r"\bH800\b", 989.4),
        (r"\bH20\b", 148),
        (r"\bA100\b", 312),
        (r"\bA800\b", 312),
        (r"\bA30\b", 165),
        (r"\bA40\b", 149.7),
        (r"\bA10\b", 125),
        (r"\bL40S\b", 362),
        (r"\bL40\b", 181),
        (r"\bL4\b", 121),
        (r"\bRTX PRO 6000 Blackwell Max-Q\b", 438.9),  # an eighth of the 3,511 that are given for FP4 with sparsity
        (r"\bRTX PRO 6000 Blackwell Workstation\b", 503.8),
        (r"\bRTX 4090\b", 165.2),
        (r"\bV100-PCIE\b", 112),
        (r"\bV100\b", 125),
        (r"\bT4\b", 65),
    )
)


_OTHERS = re.compile(r"\bLaptop\b|\bRTX 4090 D\b|\bV100-FHHL\b|-\d+[ABCQ]\b", re.IGNORECASE)
"""Boards named after a faster one, and virtual GPUs (`A100-10C`), whose part of the board the name does not tell."""


def peak_flops(model: str) -> float | None:
    """Of a GPU by its product name; None where it is not in the table."""
    if _OTHERS.search(model):
        return None
    return next((flops for pattern, flops in _PEAKS if pattern.search(model)), None)
