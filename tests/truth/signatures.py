"""What kinds of GPU show of work and of a spin: ours, and others drawn at random."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

UNITS = ("busy", "sm", "tensor", "vector", "dram", "memory", "link", "power")
Levels = Mapping[str, tuple[float, ...]]
"""Fractions by unit, in the order of UNITS, of each thing that a GPU does."""

_WORK = {
    "llm": (1.0, 0.90, 0.52, 0.06, 0.32, 0.42, 0.02, 0.90),
    "vision": (1.0, 0.80, 0.22, 0.18, 0.55, 0.65, 0.02, 0.70),
    "fp32": (1.0, 0.95, 0.0, 0.55, 0.30, 0.40, 0.02, 0.80),
}
SEEDS = (1, 2, 3)


@dataclass(frozen=True)
class Signature:
    """One kind of GPU under one driver."""

    name: str = "ours"
    spin_sm: float = 0.11
    spin_tensor: float = 0.0
    spin_memory: float = 0.01
    spin_power: float = 0.24
    idle_power: float = 0.13
    apart: float = 0.01
    """Standard deviation of the activity of the same work between GPUs."""
    noise: float = 0.02
    sample_span: float = 1 / 6
    """Seconds of one of the driver's samples of utilization."""
    tiny_vector: float = 0.05
    """Activity of the vector pipes in very small kernels."""

    def levels(self, rng: random.Random, kind: str) -> Levels:
        """Return the levels of one GPU: the same work shows a little more or less on each."""
        work = _WORK[kind]
        own = [1.0, *(rng.gauss(1.0, self.apart) for _ in work[1:])]
        return {
            "work": tuple(min(1.0, level * factor) for level, factor in zip(work, own, strict=True)),
            "half": (1.0, 0.95 * work[1], *(0.62 * level for level in work[2:7]), 0.78 * work[7]),
            "eval": (1.0, 0.7, 0.3 if work[2] else 0.0, 0.08, 0.4, 0.5, 0.0, 0.64),
            "decode": (1.0, 0.6, 0.05, 0.05, 0.75, 0.85, 0.03, 0.52),
            "light": (1.0, 0.27, 0.08, 0.02, 0.09, 0.12, 0.01, 0.286),
            "tiny": (1.0, 0.12, 0.01, self.tiny_vector, 0.06, 0.04, 0.0, 0.225),
            "spin": (
                1.0, self.spin_sm, self.spin_tensor, 0.0, self.spin_memory / 2, self.spin_memory, 0.0, self.spin_power,
            ),
            "move": (1.0, self.spin_sm, 0.0, 0.0, 0.1, 0.25, 0.4, 0.35),
            "idle": (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, self.idle_power),
        }  # fmt: skip


def drawn(seed: int) -> Signature:
    """Draw a kind of GPU: memory in a spin up to 10 %, tensor cores up to 5 %, GPUs about 5 % apart."""
    rng = random.Random(seed)  # noqa: S311 - the same in each run
    return Signature(
        name=f"drawn {seed}",
        spin_sm=rng.uniform(0.04, 0.25),
        spin_tensor=rng.uniform(0.0, 0.05),
        spin_memory=rng.uniform(0.0, 0.1),
        spin_power=rng.uniform(0.18, 0.3),
        idle_power=rng.uniform(0.09, 0.16),
        apart=0.025,
        noise=0.03,
        sample_span=rng.uniform(0.017, 0.17),
        tiny_vector=rng.uniform(0.015, 0.05),
    )


SETS: Mapping[str, Sequence[Signature]] = {"ours": [Signature()], "drawn": [drawn(seed) for seed in SEEDS]}
