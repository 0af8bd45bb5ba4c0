"""The alert about somebody who runs on a GPU that was not given to him."""

from __future__ import annotations

from deploy.prometheus.declaration import Alert, Audience, Param, Severity, Unit
from deploy.prometheus.wording import GPU, HIT, OWNER_NAME, percent
from exporter.attribution.owner import KEPT_OWNER_LABELS

_ONE = f"(cluster, node, instance, gpu, uuid, {', '.join(KEPT_OWNER_LABELS)})"

UNALLOCATED_USE = Alert(
    name="GpuUnallocatedUse",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    # Root's own programs watch, or serve the owners (MPS).
    expr=f"""\
max by {_ONE} (rate(gpu_workload_busy_gpu_seconds_total{{user!="root",workload!=""}}[<window>])) > <min_used_ratio>
and on {_ONE} gpu_unallocated_use""",
    for_="5m",
    keep_firing_for="10m",
    params=(
        Param("window", "10m", Unit.DURATION, "Time it is measured over."),
        Param("min_used_ratio", 0.05, Unit.RATIO, "Fraction of that time in which its kernels ran."),
    ),
    title="Uses a GPU unallocated",
    meaning="A workload ran kernels on a GPU of a scheduler without an allocation of it.",
    summary=f"{GPU}: {OWNER_NAME} uses it without an allocation",
    description=f"{OWNER_NAME} ran kernels on {GPU} for {percent()} of the last <window> without an allocation. "
    f"Look for a "
    f"container or process started by hand, or a task that sees more devices than its own. {HIT}",
)

UNALLOCATED = (UNALLOCATED_USE,)
