"""How states and verdicts are called and coloured wherever they are shown: dashboards, status page, report, alerts.

The colours keep apart for red-green and blue-yellow blindness too; tests/unit/ledger/test_palette.py computes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

GOOD, WATCH, WARN, BAD = "#0E8A66", "#F2CC0C", "#DB7301", "#CC1A30"
"""Verdicts on a number, from well to broken, as dashboards and edges show them; `Page` has them as text."""
INFO, NONE = "#7A8CFA", "#8A9199"
"""A number without a verdict; without an owner, or not known."""


class Page(NamedTuple):
    """What a page of our own is drawn with around the verdicts and states."""

    ink: str
    dim: str
    paper: str
    card: str
    line: str
    link: str
    good: str
    warn: str
    bad: str
    none: str
    """A verdict as text."""


LIGHT = Page(
    "#1D2329", "#5D6770", "#F6F7F9", "#FFFFFF", "#DDE2E7", "#1F60C4", "#0B7456", "#A85500", "#C0182D", "#5D6770"
)
DARK = Page(
    "#E5E9ED", "#9AA4AE", "#14181C", "#1D2329", "#333C45", "#7FB0F5", "#35BC92", "#EE9A45", "#FF7884", "#9AA4AE"
)


class Look(NamedTuple):
    title: str
    step: str
    """The first thing to do about it, short enough for a cell; the table of states has the whole advice."""
    colour: str


# fmt: off
LOOKS: Mapping[str, Look] = {
    "unobserved":            Look("Unobserved",            "Look at the node",                  "#484848"),
    "free":                  Look("Free",                  "Give it to pending work",           "#AFB8C6"),
    "held_idle":             Look("Held idle",             "Release it, or start the rank",     "#F3357F"),
    "held_unused":           Look("Held, not used",        "Ask for fewer GPUs",                "#B97CA9"),
    "wait_data":             Look("Waits for data",        "More loader workers, prefetch",     "#4810B8"),
    "wait_evaluation":       Look("Evaluates",             "Evaluate less often, or apart",     "#600018"),
    "wait_storage":          Look("Waits for storage",     "Cache locally, read ahead",         "#CB7C21"),
    "wait_network":          Look("Waits for network",     "Check links, overlap transfers",    "#956006"),
    "wait_checkpoint":       Look("Writes a checkpoint",   "Write checkpoints in background",   "#EFAD47"),
    "wait_cpu":              Look("Waits for CPU",         "More loader workers and CPUs",      "#F6E306"),
    "wait_collective":       Look("Waits in a collective", "Find the rank that lags",           "#794881"),
    "wait_peer":             Look("Waits for peers",       "Balance stages and shards",         "#CAB1FC"),
    "wait_requests":         Look("Waits for requests",    "Scale down, share, or use MIG",     "#E1EBA8"),
    "wait_user":             Look("Waits for its user",    "Release it when not in use",        "#FED9F8"),
    "wait_other":            Look("Waits, cause unknown",  "Look at the program",               "#CAB882"),
    "throttled_thermal":     Look("Throttled by heat",     "Check cooling",                     "#90090C"),
    "throttled_power_brake": Look("Power brake",           "Check the power supplies",          "#5B1A4D"),
    "communication":         Look("Communication",         "Fewer, larger synchronisations",    "#3066D3"),
    "memory_bound":          Look("Memory bound",          "Fuse operations, use bf16 or fp8",  "#1690EC"),
    "small_kernels":         Look("Small kernels",         "Larger batches, CUDA graphs",       "#9AFBD8"),
    "no_tensor_cores":       Look("No tensor cores",       "Use mixed precision (bf16)",        "#95C8AD"),
    "busy":                  Look("Busy",                  "Nothing to do",                     "#067A61"),
}
# fmt: on
"""Greys: no owner. Warm, purple and dark: lost. Blue and light green: busy, and could be better. Green: busy."""


def page_colours() -> str:
    """CSS variables by the names of `Page`, for the theme the reader's browser asks for."""
    light, dark = (";".join(f"--{name}:{value}" for name, value in each._asdict().items()) for each in (LIGHT, DARK))
    return f":root{{color-scheme:light dark;{light}}}\n@media(prefers-color-scheme:dark){{:root{{{dark}}}}}\n"


def look(state: str) -> Look:
    """Of a state this table does not have (of a newer exporter), its own name in grey."""
    return LOOKS.get(state) or Look(state.replace("_", " ").capitalize(), "", NONE)


def stacked(states: Iterable[str]) -> list[str]:
    """In the order of a stack or bar, from what the GPU was bought for to what nobody holds."""
    return list(reversed(list(states)))
