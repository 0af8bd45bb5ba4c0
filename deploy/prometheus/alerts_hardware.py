"""Alerts to on-call about GPUs: heat, power, errors, memory, lost devices."""

from __future__ import annotations

from deploy.prometheus.alerts_links import LINKS, of_model
from deploy.prometheus.declaration import Alert, Audience, Param, Severity, Unit
from deploy.prometheus.outages import held, held_firing, unless_silent
from deploy.prometheus.wording import GPU, HIT, NODE, NODE_HELD

_GPU = "(cluster, instance, gpu, uuid)"
_NODE = "(cluster, instance)"


def _share(reasons: str, window: str) -> str:
    """Share of time throttled for any of `reasons`: by the driver's counters, or by its flags where it has none."""
    labels = "without (reason)"
    counters = f'max {labels} (rate(gpu_throttled_seconds_total{{reason=~"{reasons}"}}[{window}]))'
    flags = f'max {labels} (avg_over_time(gpu_throttle_active{{reason=~"{reasons}"}}[{window}]))'
    return f"{counters}\n    or on {_GPU}\n    {flags}"


def _throttling(name: str, reasons: str, what: str, advice: str) -> Alert:
    return Alert(
        name=name,
        audience=Audience.ONCALL,
        severity=Severity.WARNING,
        expr=f"(\n    {_share(reasons, '<window>')}\n) > <share>",
        for_="5m",
        keep_firing_for="15m",
        params=(
            Param("share", 0.1, Unit.RATIO, "Share of time the clocks are held down."),
            Param("window", "10m", Unit.DURATION, "Time the share is taken over."),
        ),
        summary=f"{GPU} is slowed down by {what}",
        description=f"{GPU} was slowed down by {what} {{{{ $value | humanizePercentage }}}} of the last <window>, more "
        f"than {{{{ `<share>` | humanizePercentage }}}}. {advice} {HIT}",
    )


THERMAL = _throttling(
    "GpuThermalThrottling", "sw_thermal|hw_thermal|thermal", "heat", "Look at fans, air flow and inlet temperature."
)
POWER_BRAKE = _throttling(
    "GpuPowerBrake", "hw_power_brake", "the power brake", "Look at power supplies, cables and the rack's power limit."
)

TEMPERATURE = Alert(
    name="GpuTemperatureMarginLow",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    expr=f"""\
(
  gpu_temperature_margin_celsius
  or on {_GPU}
  sum without (threshold) (gpu_temperature_threshold_celsius{{threshold="slowdown"}})
    - on {_GPU} group_left () max by {_GPU} (gpu_temperature_celsius{{sensor="gpu"}})
) < <margin>""",
    for_="10m",
    keep_firing_for="10m",
    params=(Param("margin", 3, Unit.CELSIUS, "Degrees left before the GPU slows itself down."),),
    summary=f"{GPU} is close to its slowdown temperature",
    description=f"{GPU} has {{{{ $value | humanize }}}} degrees left before it slows itself down. {HIT}",
)

FAN = Alert(
    name="GpuFanFailed",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    # Zero rpm alone is a feature of cards that stop their fans when cool.
    expr=f"""\
(gpu_fan_speed_rpm == 0 or on (cluster, instance, uuid, fan) gpu_fan_speed_ratio == 0)
and on {_GPU} gpu_temperature_celsius{{sensor="gpu"}} > <hot>""",
    for_="10m",
    keep_firing_for="10m",
    params=(Param("hot", 70, Unit.CELSIUS, "Temperature at which a fan must turn."),),
    summary=f"Fan {{{{ $labels.fan }}}} of {GPU} stands still",
    description=f"Fan {{{{ $labels.fan }}}} of {GPU} stands still while the GPU is over <hot> degrees. {HIT}",
)


def _fault(name: str, severity: Severity, selector: str, advice: str, for_: str = "0s") -> Alert:
    """An alert on a fault the exporter keeps until its cure is proven: it ends with the fault, not with a clock."""
    return Alert(
        name=name,
        audience=Audience.ONCALL,
        severity=severity,
        expr=held(name, f"gpu_fault_timestamp_seconds{{{selector}}}"),
        summary=f"{GPU}: {{{{ $labels.evidence }}}}",
        description=f"{GPU}: {{{{ $labels.evidence }}}}, since {{{{ $value | humanizeTimestamp }}}}. {advice} " + HIT,
        for_=for_,
    )


XID_HARDWARE = _fault(
    "GpuXidHardware",
    Severity.CRITICAL,
    'fault=~"xid|lost",evidence=~"XID .*",action=~"reset|restart|page"',
    "{{ if eq $labels.action `reset` }}Drain the GPU and reset it."
    "{{ else if eq $labels.action `page` }}This site's list of XIDs asks for a page: look at the kernel log."
    "{{ else }}Drain the node and restart it.{{ end }}",
)
XID_WORKFLOW = _fault(
    "GpuXidWorkflow",
    Severity.WARNING,
    'fault=~"xid|xid_pattern",action=~"procedure|vendor|inspect"',
    "{{ if eq $labels.fault `xid_pattern` }}Many programs fail on this GPU and on no other: test it when it is free."
    "{{ else if eq $labels.action `procedure` }}NVIDIA has a procedure for it: see the runbook."
    "{{ else if eq $labels.action `vendor` }}Keep a bug report (nvidia-bug-report.sh) and ask the vendor."
    "{{ else }}It is not in the catalogue: look at the kernel log.{{ end }}",
)


def _flag(
    name: str, severity: Severity, expr: str, text: tuple[str, str], for_: str = "0s", keep_firing_for: str = "0s"
) -> Alert:
    """An alert on a state the driver itself reports; `text` is what is so, and what to do. What pages is held."""
    what, advice = text
    pages = severity is Severity.CRITICAL
    return Alert(
        name=name,
        audience=Audience.ONCALL,
        severity=severity,
        expr=held_firing(name, expr) if pages else expr,
        summary=f"{GPU} {what}",
        description=f"{GPU} {what}. {advice} {HIT}",
        for_=for_,
        keep_firing_for=keep_firing_for,
    )


ECC = _fault(
    "GpuEccUncorrectable",
    Severity.CRITICAL,
    'fault="ecc_uncorrectable",action="reset"',
    "Results of work that ran meanwhile are in doubt. Drain the GPU and reset it.",
)
ECC_SRAM = _fault(
    "GpuEccSramThreshold",
    Severity.CRITICAL,
    'fault="ecc_sram_threshold"',
    "It has more SRAM errors than NVIDIA allows: drain the node and have the GPU replaced.",
)
REMAP_PENDING = _flag(
    "GpuRowRemapPending",
    Severity.WARNING,
    """\
gpu_row_remap_pending == 1
or gpu_retired_pages_pending == 1
or on (cluster, instance, uuid) gpu_recovery_action{action=~"drain_and_reset|drain_p2p"} == 1
or on (cluster, instance, uuid) gpu_fault_timestamp_seconds{action="reset_when_idle"}""",
    (
        "waits for a reset: bad memory to replace, an error that was contained, or the driver's advice",
        "Put no new work on it, and reset it when what runs has ended.",
    ),
    for_="10m",
    keep_firing_for="10m",
)
REMAP_FAILED = _fault(
    "GpuRowRemapFailed",
    Severity.CRITICAL,
    'fault="row_remap_failed"',
    "It could not replace bad memory: drain the node and have the GPU replaced.",
)
RECOVERY = _flag(
    "GpuRecoveryActionNeeded",
    Severity.CRITICAL,
    # What can wait for the work on the GPU is GpuRowRemapPending.
    'gpu_recovery_action{action!~"none|drain_and_reset|drain_p2p"} == 1',
    ("needs {{ reReplaceAll `_` ` ` $labels.action }}", "The driver itself asks for it now: drain the GPU first."),
    for_="1m",
    keep_firing_for="5m",
)
MEMORY_LEAKED = Alert(
    name="GpuMemoryLeaked",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    expr="gpu_memory_unattributed_bytes > <bytes>",
    for_="10m",
    keep_firing_for="15m",
    params=(Param("bytes", "1073741824", Unit.BYTES, "Used memory that belongs to no process."),),
    summary=f"{GPU} has memory in use that no process owns",
    description=f"{{{{ $value | humanize1024 }}}}B of {GPU} is in use and belongs to no process: the next job lacks "
    f"it. Look for processes that cannot end; reset the GPU when it is free. {HIT}",
)

LOST = Alert(
    name="GpuLost",
    audience=Audience.ONCALL,
    severity=Severity.CRITICAL,
    # By device if it is known, else by count. Silent while GpuDriverUnavailable or GpuXidHardware reports it.
    expr=held_firing(
        "GpuLost",
        f"""\
(
  gpu_fault_timestamp_seconds{{fault="lost"}}
  or on {_NODE} gpu_finding{{finding="gpu_missing"}}
)
unless on {_NODE} gpu_exporter_driver_error
unless on (cluster, instance, uuid) gpu_fault_timestamp_seconds{{action="restart",evidence=~"XID .*"}}""",
    ),
    for_="5m",
    keep_firing_for="10m",
    summary=f"{{{{ if $labels.fault }}}}{GPU} is lost{{{{ else }}}}{NODE} has lost a GPU{{{{ end }}}}",
    description=f"{{{{ if $labels.fault }}}}{GPU} does not answer ({{{{ $labels.evidence }}}}) since "
    f"{{{{ $value | humanizeTimestamp }}}}: it is off the bus, or calls about it hang. "
    f"{HIT}{{{{ else }}}}{NODE} has fewer GPUs than there should be. " + unless_silent(NODE_HELD) + "{{ end }}",
)

MEMORY_WEARING = Alert(
    name="GpuMemoryWearing",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    expr="""\
(gpu_row_remap_banks{availability="none"} >= <banks>)
or on (cluster, instance, uuid)
60 * sum without (type) (rate(gpu_ecc_errors_total{type="corrected"}[<window>])) > <rate>""",
    for_="15m",
    keep_firing_for="1h",
    params=(
        Param("banks", 1, Unit.COUNT, "Memory banks without a spare row."),
        Param("rate", 100, Unit.COUNT, "Corrected errors a minute."),
        Param("window", "15m", Unit.DURATION, "Time they are counted over."),
    ),
    summary=f"The memory of {GPU} wears out",
    description=f"{GPU} has {{{{ $value | humanize }}}}"
    "{{ if $labels.availability }} memory bank(s) without a spare row: the next bad row there cannot be replaced"
    "{{ else }} corrected memory errors a minute: it works, and uncorrectable ones are likely{{ end }}. "
    f"Plan its replacement. {HIT}",
)


ECC_DISABLED = _flag(
    "GpuEccDisabled",
    Severity.WARNING,
    # Models without ECC, and sites that switch it off on all of a model, are no fault: most others must have it on.
    f"{of_model('(gpu_ecc_mode_enabled == 0)')}\n"
    f"and on (cluster, model) avg by (cluster, model) {of_model('gpu_ecc_mode_enabled')} > 0.5",
    (
        "has ECC switched off, unlike most {{ $labels.model }} here",
        "Memory errors go into results unseen. Switch it on (nvidia-smi -e 1) and reset the GPU.",
    ),
    for_="30m",
    keep_firing_for="15m",
)
LIMITED = Alert(
    name="GpuPerformanceLimited",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    # Work comes in bursts, and with it the finding: what it has most of the time counts.
    expr="""\
count_over_time(gpu_finding{finding=~"limited|hw_slowdown"}[<window>])
  > on (cluster, instance, uuid) group_left () 0.5 * count_over_time(gpu_up[<window>])""",
    for_="15m",
    keep_firing_for="30m",
    params=(Param("window", "10m", Unit.DURATION, "Time in more than half of which it is limited."),),
    summary=f"{GPU} is slower than it can be",
    description=f"The power limit or the SM clock under load of {GPU} is below half of what it can be, or the hardware "
    f"holds its clocks down. Look for limits that were set and forgotten (nvidia-smi -q -d POWER,CLOCK), for power "
    f"supplies and cables. {HIT}",
)

HARDWARE = (
    THERMAL,
    POWER_BRAKE,
    TEMPERATURE,
    FAN,
    XID_HARDWARE,
    XID_WORKFLOW,
    ECC,
    ECC_SRAM,
    REMAP_PENDING,
    REMAP_FAILED,
    RECOVERY,
    LOST,
    *LINKS,
    MEMORY_LEAKED,
    MEMORY_WEARING,
    ECC_DISABLED,
    LIMITED,
)
