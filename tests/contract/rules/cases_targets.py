"""Cases of targets that leave discovery for a reason: nobody is missed."""

from __future__ import annotations

from tests.contract.rules.case import Case, fires, silent
from tests.contract.rules.cases_fleet import had, known, ups


def powered_down(count: int, values: str, first: int = 1) -> dict[str, str]:
    """Nodes as targets.py lists them that Slurm has switched off; where it finds them next, nobody knows."""
    return {
        f'up{{cluster="c1",job="slurm-powered-down",node="n{n}",instance="n{n}"}}': values
        for n in range(first, first + count)
    }


_HALF = ups(4, "1x60") | ups(4, "1x10 _x50", 5) | known("8x10 4x50") | had(4, "1x60") | had(4, "1x10 _x50", 5)
_ALL = ups(4, "1x70 _x150") | had(4, "1x70 _x150") | known("4x70 _x150")

_OFF = ups(4, "1x10 0x40") | ups(16, "1x50", 5) | powered_down(4, "_x10 1x40")

CASES: tuple[Case, ...] = (
    fires("GpuNodeMaintenance", "Slurm switched them off, and they are targets still", "30m", _OFF),
    silent(
        "GpuTargetsGone", "Slurm switches half of the nodes off", "22m 40m", _HALF | powered_down(4, "_x10 1x50", 5)
    ),
    silent("GpuTargetsGone", "Slurm switches all nodes off", "82m 100m", _ALL | powered_down(4, "_x70 1x150")),
    fires("GpuTargetsGone", "not those that Slurm has switched off", "40m", _HALF | powered_down(4, "_x10 1x50", 9)),
    silent("GpuTargetsGone", "Slurm switched the last node off", "81m 200m", _ALL | powered_down(4, "_x70 1x150")),
    silent(
        "GpuTargetsGone",
        "a cluster that gets another name",
        "22m 40m 60m",
        ups(4, "1x10 _x50")
        | known("4x10 _x50")
        | had(4, "1x12 _x50")
        | ups(4, "_x10 1x50", cluster="prod")
        | known("_x10 4x50", "prod")
        | had(4, "_x10 1x50", cluster="prod"),
    ),
)
