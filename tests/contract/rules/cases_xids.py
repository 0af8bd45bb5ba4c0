"""Cases of the alert about XIDs that programs raise."""

from __future__ import annotations

from tests.contract.rules.case import JOB, OWNER, fires, silent
from tests.contract.rules.cases_workload import UP, allocated
from tests.contract.rules.series import share, xid

CASES = (
    fires(
        "GpuXidApplication",
        "a page fault, and the job has ended when it is seen",
        "32m",
        xid(31, "restart_app", "_x30 1x60", "_x30 1800x60")
        | share(OWNER, "1x29 _x60")
        | allocated(OWNER, "1x29 0x2 _x60")
        | UP,
    ),
    fires(
        "GpuXidApplication",
        "another error of the program",
        "31m",
        xid(32, "restart_app", "_x30 1x60", "_x30 1800x60") | share(JOB, "1x100") | allocated(JOB, "1x100") | UP,
    ),
    silent(
        "GpuXidApplication",
        "two workloads are each said to hold the GPU alone: neither is blamed",
        "31m 40m",
        xid(13, "restart_app", "_x30 1x60", "_x30 1800x60")
        | share(JOB, "1x100")
        | share(OWNER, "1x100")
        | allocated(JOB, "1x100")
        | allocated(OWNER, "1x100")
        | UP,
    ),
    fires(
        "GpuXidApplication",
        "comes again, and is told for an hour",
        "80m",
        xid(13, "restart_app", "1x20 2x90", "60x20 1200x90") | share(JOB, "1x110") | allocated(JOB, "1x110") | UP,
    ),
    fires(
        "GpuXidApplication",
        "two kinds on GPUs of five nodes: one alert",
        "32m",
        {
            name.replace("n1", f"n{number}").replace("GPU-3", f"GPU-{number}"): values
            for number in range(1, 6)
            for name, values in (
                xid(31, "restart_app", "_x30 1x60", f"_x30 {1800 - number}x60")
                | xid(43, "restart_app", "_x31 1x60", f"_x31 {1860 - number}x60")
                | share(JOB, "1x100")
                | allocated(JOB, "1x100")
                | UP
            ).items()
        },
    ),
    silent(
        "GpuXidApplication",
        "a GPU that two jobs share",
        "32m",
        xid(31, "restart_app", "_x30 4x60", "_x30 1800x60")
        | share(OWNER, "0.5x100")
        | share(JOB, "0.5x100")
        | allocated(OWNER, "0.5x100")
        | allocated(JOB, "0.5x100")
        | UP,
    ),
    silent(
        "GpuXidApplication",
        "of the job before",
        "36m",
        xid(31, "restart_app", "_x30 1x60", "_x30 1800x60")
        | share(OWNER, "_x33 1x60")
        | allocated(OWNER, "_x33 1x60")
        | UP,
    ),
    silent(
        "GpuXidApplication",
        "nobody holds the GPU",
        "32m",
        xid(31, "restart_app", "_x30 4x60", "_x30 1800x60"),
    ),
    silent(
        "GpuXidApplication",
        "a node that comes back with old errors on its counter",
        "182m",
        xid(31, "restart_app", "4x20 _x160 4x30", "0x20 _x160 0x30")
        | share(OWNER, "1x200")
        | allocated(OWNER, "1x200"),
    ),
    silent(
        "GpuXidApplication",
        "a node that is scraped again after a pause, long after the errors",
        "88m",
        xid(31, "restart_app", "_x5 4x30 _x40 4x30", "_x5 300x30 _x40 300x30")
        | share(OWNER, "1x110")
        | allocated(OWNER, "1x110"),
    ),
    silent(
        "GpuXidApplication",
        "long ago",
        "99m",
        xid(31, "restart_app", "_x30 4x80", "_x30 1800x80") | share(OWNER, "1x110") | allocated(OWNER, "1x110") | UP,
    ),
    silent(
        "GpuXidApplication",
        "counter restarts at zero",
        "75m",
        xid(31, "restart_app", "5x70 0x20", "0x70 _x20") | share(OWNER, "1x100") | allocated(OWNER, "1x100"),
    ),
)
