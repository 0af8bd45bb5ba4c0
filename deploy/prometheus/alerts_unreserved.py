"""The alert about somebody who runs on a GPU that was given to others."""

from __future__ import annotations

from deploy.prometheus.declaration import Alert, Audience, Param, Severity, Unit
from deploy.prometheus.wording import GPU, HIT, OWNER
from exporter.attribution.owner import OWNER_LABELS

_ONE = f"(cluster, node, instance, gpu, uuid, {', '.join(OWNER_LABELS)})"

UNRESERVED_USE = Alert(
    name="GpuUnreservedUse",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    # A share of 0 is of one that runs where others hold. Root's own programs watch, or serve those that hold it (MPS).
    expr=f"""\
max by {_ONE} (rate(gpu_workload_used_gpu_seconds_total{{user!="root",workload!=""}}[<window>])) > <used>
and on {_ONE} max by {_ONE} (max_over_time(gpu_owner_share[<window>])) == 0""",
    for_="5m",
    keep_firing_for="10m",
    params=(
        Param("window", "10m", Unit.DURATION, "Time it is measured over; it must have had no share all along."),
        Param("used", 0.05, Unit.RATIO, "Share of that time in which its kernels ran."),
    ),
    summary=f"{OWNER} uses {GPU}, which was given to others",
    description=f"{OWNER} ran kernels on {GPU} for {{{{ $value | humanizePercentage }}}} of the last <window> and was "
    f"not given it: a container or a process started by hand, or a task that sees more devices than its own. {HIT}",
)

UNRESERVED = (UNRESERVED_USE,)
