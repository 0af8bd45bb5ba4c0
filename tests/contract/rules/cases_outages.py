"""Cases of a fault whose node cannot be scraped: only its cure ends the alert."""

from __future__ import annotations

from tests.contract.rules.case import JOB, NODE, Case, fires, silent
from tests.contract.rules.cases_exporter import node
from tests.contract.rules.cases_hardware import fault, missing
from tests.contract.rules.cases_workload import allocated, device, ledger
from tests.contract.rules.series import gauge, share

_XID = fault("lost", "XID 79", "restart", "1200x20 stale")
"""Gone after 20 minutes: cured, or its node does not answer."""


def _up(values: str, dev: str = NODE) -> dict[str, str]:
    return gauge("up", values, dev)


_LOST = fault("lost", "GPU_IS_LOST", "restart", "600x30 stale")
_RESET = gauge("gpu_recovery_action", "1x30 stale", more=',action="gpu_reset"')


def _driver(values: str) -> dict[str, str]:
    return node("gpu_exporter_driver_error", values, ',error="DRIVER_NOT_LOADED"')


PENDING: tuple[Case, ...] = (
    fires("GpuLost", "the node is down since", "200m", _LOST | _up("1x30 0x200")),
    fires(
        "GpuLost",
        "one fewer than there should be, and the node is down since",
        "200m",
        missing("1x30 stale") | _up("1x30 0x200"),
    ),
    silent("GpuLost", "the node came back with it", "52m", _LOST | _up("1x30 0x10 1x30")),
    silent("GpuLost", "cured, and down an hour later", "120m", _LOST | _up("1x90 0x60")),
    silent(
        "GpuLost",
        "for a minute, while the node went down",
        "30m 90m",
        fault("lost", "no answer", "restart", "_x20 1200 stale") | _up("1x20 0x90"),
    ),
    fires("GpuRecoveryActionNeeded", "the node is down since", "200m", _RESET | _up("1x30 0x200")),
    silent("GpuRecoveryActionNeeded", "the restart has ended it", "47m", _RESET | _up("1x30 0x10 1x30")),
    fires("GpuDriverUnavailable", "the node is down since", "200m", _driver("1x30 stale") | _up("1x30 0x200")),
    silent("GpuDriverUnavailable", "the restart has ended it", "42m", _driver("1x30 stale") | _up("1x30 0x10 1x30")),
    silent(
        "GpuDriverUnavailable",
        "for minutes, while the node went down",
        "30m 90m",
        _driver("_x20 1x3 stale") | _up("1x23 0x90"),
    ),
)
"""What must last before it fires."""

ENDED: tuple[Case, ...] = (
    silent(
        "GpuAllocatedIdle",
        "the job ended twenty minutes ago",
        "110m",
        device("allocated_idle", "0+60x90 stale")
        | share(JOB, "1x90 stale")
        | allocated(JOB, "1x90 stale")
        | _up("1x120"),
    ),
    silent(
        "GpuWorkloadHung",
        "the job was ended twenty minutes ago",
        "60m",
        allocated(JOB, "4x40 stale") | ledger(JOB, wait_collective="0+240x40 stale") | _up("1x70"),
    ),
    silent(
        "GpuAllocatedIdle",
        "the notebook was closed twenty minutes ago",
        "320m",
        allocated(JOB, "1x300 stale") | ledger(JOB, wait_user="0+60x300 stale") | _up("1x330"),
    ),
)
"""What outlives a scrape that fails is told for no longer than that takes."""

CASES: tuple[Case, ...] = (
    *PENDING,
    *ENDED,
    fires("GpuLost", "the scrape after it fails", "21m", _XID | _up("1x20 0 1x30")),
    fires(
        "GpuLost",
        "the node went down while Prometheus restarted: nothing marks the end of its series",
        "22m",
        fault("lost", "XID 79", "restart", "1200x20 _x60") | _up("1x20 0x60"),
    ),
    fires("GpuLost", "its XID, and the node is down since", "600m", _XID | _up("1x20 0x600")),
    silent("GpuLost", "the node came back without it", "32m", _XID | _up("1x20 0x10 1x30")),
    silent("GpuLost", "the node is no target any more", "32m", _XID | _up("1x20 0x5 stale")),
    silent("GpuLost", "its XID cured, and down an hour later", "90m", _XID | _up("1x80 0x30")),
    silent(
        "GpuLost",
        "cured, on a node that another job cannot scrape",
        "40m",
        _XID | _up("1x60") | _up("0x60", NODE.replace('job="gpu-exporter"', 'job="also-gpu-exporter"')),
    ),
)
