"""The alert about somebody who runs on a GPU that was not given to him."""

from __future__ import annotations

from deploy.prometheus.declaration import Alert, Audience, Param, Severity, Unit
from deploy.prometheus.wording import GPU, HIT, OWNER
from exporter.attribution.owner import KEPT_OWNER_LABELS

_ONE = f"(cluster, node, instance, gpu, uuid, {', '.join(KEPT_OWNER_LABELS)})"

UNALLOCATED_USE = Alert(
    name="GpuUnallocatedUse",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    # Root's own programs watch, or serve those that hold it (MPS).
    expr=f"""\
max by {_ONE} (rate(gpu_workload_busy_gpu_seconds_total{{user!="root",workload!=""}}[<window>])) > <used>
and on {_ONE} gpu_unallocated_use""",
    for_="5m",
    keep_firing_for="10m",
    params=(
        Param("window", "10m", Unit.DURATION, "Time it is measured over."),
        Param("used", 0.05, Unit.RATIO, "Share of that time in which its kernels ran."),
    ),
    summary=f"{OWNER} uses {GPU}, which it was not given",
    description=f"{OWNER} ran kernels on {GPU} for {{{{ $value | humanizePercentage }}}} of the last <window> and was "
    "not given it; it is others', or a scheduler's to give: a container or a process started by hand, or a task that "
    f"sees more devices than its own. {HIT}",
)

UNALLOCATED = (UNALLOCATED_USE,)
