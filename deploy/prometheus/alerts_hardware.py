"""Alerts to on-call about GPUs: heat, power, errors, memory, lost devices."""

from __future__ import annotations

from deploy.prometheus.alerts_links import LINKS
from deploy.prometheus.declaration import Alert, Audience, Param, Severity, Unit
from deploy.prometheus.outages import keep_while_silent, unless_silent
from deploy.prometheus.recordings_alert import MARGIN
from deploy.prometheus.recordings_device import INFO_JOIN
from deploy.prometheus.wording import (
    GPU,
    HIT,
    NODE,
    NODE_ALLOCATED,
    by_value,
    first_step,
    of_gpu,
    percent,
    size,
    step_of,
    threshold,
    timestamp,
)
from exporter.faults.findings import REPAIRS, RESET, RESET_WHEN_IDLE
from exporter.faults.rules import RECOVERY as ADVISED
from exporter.faults.rules import is_urgent

_GPU = "(cluster, instance, gpu, uuid)"
_DEVICE = "(cluster, instance, uuid)"
_NODE = "(cluster, instance)"


def _throttled(reasons: str) -> str:
    """Fraction of time throttled for any of `reasons`: by the driver's counters, or by its flags where it has none."""
    return (
        f'max without (reason) (rate(gpu_throttled_seconds_total{{reason=~"{reasons}"}}[<window>]))\n'
        f'    or on {_GPU} max without (reason) (avg_over_time(gpu_throttle_active{{reason=~"{reasons}"}}[<window>]))'
    )


_HEAT = "sw_thermal|hw_thermal|thermal"
_THROTTLED = Param("max_throttled_ratio", 0.1, Unit.RATIO, "Fraction of time that the clocks may be lowered.")
_OVER = Param("window", "10m", Unit.DURATION, "Time it is measured over.")
_BY_HEAT = of_gpu(
    f'max(rate(gpu_throttled_seconds_total{{<gpu>,reason=~"{_HEAT}"}}[<window>])'
    f' or avg_over_time(gpu_throttle_active{{<gpu>,reason=~"{_HEAT}"}}[<window>])) > <max_throttled_ratio>',
    f" Heat lowered its clocks {percent('.Value')} of the last <window> (threshold "
    f"{threshold('max_throttled_ratio')}).",
)
_STANDS = of_gpu(
    "(gpu_fan_speed_rpm{<gpu>} or gpu_fan_speed_ratio{<gpu>}) == 0",
    f" Fan {{{{ .Labels.fan }}}} stands still: {first_step('fan').lower()}.",
)
_LEFT = of_gpu(
    f"min({MARGIN.record}{{<gpu>}})",
    " It is {{ .Value | printf `%.0f` }} °C below the temperature at which it slows down.",
)

THERMAL = Alert(
    name="GpuThermalThrottling",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    # Zero rpm alone is a feature of cards that stop their fans when cool. The ratio is what a fan is asked for, so that
    # it counts only where the speed is not measured.
    expr=f"""\
max without (job, sensor, fan) (
  ({_throttled(_HEAT)}) > <max_throttled_ratio>
  or max_over_time({MARGIN.record}[<window>]) < <min_margin_celsius>
  or gpu_temperature_celsius{{sensor="gpu"}} > <max_fanless_celsius>\
 and on {_GPU} ((gpu_fan_speed_rpm or gpu_fan_speed_ratio) == 0))""",
    for_="5m",
    keep_firing_for="15m",
    correlated=True,
    params=(
        _THROTTLED,
        _OVER,
        Param("min_margin_celsius", 3, Unit.CELSIUS, "Degrees left before the GPU slows itself down."),
        Param("max_fanless_celsius", 70, Unit.CELSIUS, "Temperature from which on a fan must turn."),
    ),
    title="GPU overheats",
    meaning="Heat lowers the clocks of a GPU or soon will, or the fan of a hot card stands still.",
    summary=f"{GPU} overheats",
    description=f"{GPU} overheats.{_BY_HEAT}{_STANDS}{_LEFT} {first_step('hw_thermal')}. {HIT}",
)
POWER_BRAKE = Alert(
    name="GpuPowerBrake",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    expr=f"(\n    {_throttled('hw_power_brake')}\n) > <max_throttled_ratio>",
    for_="5m",
    keep_firing_for="15m",
    correlated=True,
    params=(_THROTTLED, _OVER),
    title="Power brake slows the GPU",
    meaning="The power brake, a signal of power supply or rack, lowers the clocks of a GPU.",
    summary=f"{GPU} is slowed down by the power brake",
    description=f"The power brake lowered the clocks of {GPU} for {percent()} of the last <window> (threshold "
    f"{threshold('max_throttled_ratio')}). {first_step('power_brake')}. {HIT}",
)


def _fault(name: str, severity: Severity, expr: str, means: tuple[str, str], what: str, advice: str) -> Alert:
    """An alert on a fault the exporter keeps until its cure is proven: it ends with the fault, not with a clock.

    `means` are its title and its meaning.
    """
    title, meaning = means
    return Alert(
        name=name,
        audience=Audience.ONCALL,
        severity=severity,
        expr=keep_while_silent(name, expr),
        title=title,
        meaning=meaning,
        summary=f"{GPU} {what}",
        description=f"{GPU} {what}. {advice} {HIT}",
    )


_EVIDENCE = "({{ $labels.evidence }})"
_SINCE = "{{ if $labels.fault }}Since " + timestamp() + ". {{ end }}"
XID_WORKFLOW = _fault(
    "GpuXidWorkflow",
    Severity.WARNING,
    'gpu_fault_timestamp_seconds{fault=~"xid|xid_pattern",action=~"procedure|vendor|inspect"}',
    ("GPU reported an XID", "An XID needs a procedure of its own or the vendor, or many programs fail on one GPU."),
    "reported {{ $labels.evidence }}",
    _SINCE
    + "{{ if eq $labels.fault `xid_pattern` }}Many programs fail on this GPU and on no other. "
    + first_step("xid_pattern")
    + ".{{ else }}"
    + by_value("$labels.action", {each: f"{step_of(REPAIRS[each][2])}." for each in ("procedure", "vendor", "inspect")})
    + "{{ end }}",
)
_STEPS = {action: f"{step_of(what)}." for action, (_, _, what) in REPAIRS.items()}
_URGENT = [action for action in ADVISED if is_urgent(action)]
_PATIENT = [action for action in ADVISED if not is_urgent(action)]
_NOW, _BEYOND_RESET = (f'gpu_recovery_action{{action=~"{"|".join(actions)}"}}' for actions in (_URGENT, _URGENT[1:]))
_FAULTS = 'gpu_fault_timestamp_seconds{fault=~"xid|ecc_uncorrectable",action=~"%s"}'
RECOVERY = _fault(
    "GpuRecoveryActionNeeded",
    Severity.CRITICAL,
    # The stronger action is named: a driver that advises a reboot is not content with a reset. Without a fault, its
    # advice must stand for two minutes. What can wait for the work on the GPU is GpuResetPending.
    f"""\
{_FAULTS % "page|restart"}
or gpu_fault_timestamp_seconds{{fault=~"row_remap_failed|ecc_sram_threshold"}}
or on {_DEVICE} ({_FAULTS % "reset"} unless on {_DEVICE} {_BEYOND_RESET})
or on {_DEVICE} ({_NOW} == 1 and on {_DEVICE} (max_over_time({_NOW}[10m] offset 2m) or gpu_fault_timestamp_seconds))""",
    ("GPU needs reset or RMA", "A GPU must be reset or replaced before anything else runs on it."),
    "{{ if eq $labels.action `replace` }}must be replaced{{ else if eq $labels.action `page` }}reported an XID "
    "of the site's "
    "list{{ else if eq $labels.action `restart` }}needs a node reboot{{ else if eq $labels.fault `` }}needs a "
    "{{ $labels.action | reReplaceAll `_` ` ` | reReplaceAll `gpu` `GPU` }}{{ else }}must be reset{{ end }}"
    "{{ with $labels.evidence }} ({{ . }}){{ end }}",
    _SINCE
    + "Results of work that ran meanwhile are in doubt. "
    + by_value("$labels.action", {**_STEPS, **{each: f"{step_of(ADVISED[each][1])}." for each in _URGENT}})
    + "{{ if eq $labels.fault `` }}"
    + of_gpu("gpu_fault_timestamp_seconds{<gpu>}", " Its fault: {{ .Labels.evidence }}.")
    + "{{ end }}",
)
_WAITING = {"": RESET_WHEN_IDLE, "reset_when_idle": RESET_WHEN_IDLE, **{each: ADVISED[each][1] for each in _PATIENT}}
RESET_PENDING = Alert(
    name="GpuResetPending",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    expr=f"""\
gpu_row_remap_pending == 1
or gpu_retired_pages_pending == 1
or on {_DEVICE} gpu_recovery_action{{action=~"{"|".join(_PATIENT)}"}} == 1
or on {_DEVICE} gpu_fault_timestamp_seconds{{action="reset_when_idle"}}""",
    for_="10m",
    keep_firing_for="10m",
    title="GPU needs a reset when idle",
    meaning="A GPU waits for a reset, or for another repair that its driver advises.",
    summary=f"{GPU} needs a reset or another repair when it is idle",
    description=f"{GPU} waits for a repair: bad memory to replace, a contained error, or the driver's advice. "
    + by_value("$labels.action", {each: f"{step_of(what)}." for each, what in _WAITING.items()})
    + f" {HIT}",
)
_MISSING = 'gpu_finding{finding="gpu_missing"}'
_GONE = 'gpu_fault_timestamp_seconds{fault="lost"}'
LOST = Alert(
    name="GpuLost",
    audience=Audience.ONCALL,
    severity=Severity.CRITICAL,
    # With an XID at once, else by device if it is known, else by count. Silent while GpuDriverUnavailable reports it.
    # Three scrapes may have failed at the time that is looked back to.
    expr=keep_while_silent(
        "GpuLost",
        f"""\
max without (job) (gpu_fault_timestamp_seconds{{fault="lost",evidence=~"XID .*"}}
or on {_DEVICE} ({_GONE} and last_over_time({_GONE}[4m] offset <wait>)
  or on {_NODE} {_MISSING} and last_over_time({_MISSING}[4m] offset <wait>))
unless on {_NODE} gpu_exporter_driver_error)""",
    ),
    params=(Param("wait", "5m", Unit.DURATION, "Time a GPU must be away for; with an XID the alert fires at once."),),
    title="GPU lost",
    meaning="A GPU that should be there fell off the PCIe bus, or is unreachable.",
    summary=f"{{{{ if $labels.fault }}}}{GPU} {{{{ if $labels.evidence | match `^XID 79` }}}}fell off the PCIe bus"
    f"{{{{ else }}}}is lost{{{{ end }}}} {_EVIDENCE}{{{{ else }}}}{NODE} has fewer GPUs than it should have{{{{ "
    f"end }}}}",
    description=f"{{{{ if $labels.fault }}}}{GPU} is lost {_EVIDENCE} since {timestamp()}: it is "
    f"off the bus, or calls about it hang. {{{{ if eq $labels.action `reset` }}}}{step_of(RESET)}{{{{ else }}}}"
    f"{first_step('gpu_down')}{{{{ end }}}}. {HIT}{{{{ else }}}}{NODE} has "
    f"fewer GPUs than "
    "it should have. " + unless_silent(NODE_ALLOCATED) + f" {first_step('gpu_missing')}."
    "{{ end }}",
)
MEMORY_LEAKED = Alert(
    name="GpuMemoryLeaked",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    expr="gpu_memory_unattributed_bytes > <max_leaked_bytes>",
    for_="10m",
    keep_firing_for="15m",
    params=(Param("max_leaked_bytes", "1073741824", Unit.BYTES, "Used memory that belongs to no process."),),
    title="GPU memory leaked",
    meaning="GPU memory is in use that belongs to no process, so that the next job lacks it.",
    summary=f"{GPU} has {size()} of memory in use that no process owns",
    description=f"{size()} of {GPU} is in use and belongs to no process: the next job lacks "
    f"it. {first_step('leaked')}, then reset the GPU when it is free. {HIT}",
)
MEMORY_WEARING = Alert(
    name="GpuMemoryWearing",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    expr=f"""\
(gpu_row_remap_banks{{availability="none"}} >= <min_banks>)
or on {_DEVICE}
60 * sum without (type) (rate(gpu_ecc_errors_total{{type="corrected"}}[<window>])) > <max_errors_per_minute>""",
    for_="15m",
    keep_firing_for="1h",
    params=(
        Param("min_banks", 1, Unit.COUNT, "Memory banks without a spare row."),
        Param("max_errors_per_minute", 100, Unit.COUNT, "Corrected errors a minute."),
        Param("window", "15m", Unit.DURATION, "Time they are counted over."),
    ),
    title="GPU memory wears out",
    meaning="The memory of a GPU wears out: banks without spare rows, or many corrected errors.",
    summary=f"{GPU} has memory that wears out",
    description=f"{GPU} has {{{{ $value | printf `%.0f` }}}}"
    "{{ if $labels.availability }} memory bank{{ if ne $value 1.0 }}s{{ end }} without a spare row: the next "
    "bad row there "
    "cannot be replaced{{ else }} corrected memory errors a minute: it works, and uncorrectable ones are "
    "likely{{ end }}. "
    f"Plan its replacement. {HIT}",
)
_MODES = f"gpu_ecc_mode_enabled{INFO_JOIN}"
ECC_DISABLED = Alert(
    name="GpuEccDisabled",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    # Models without ECC, and sites that switch it off on all of a model, are no fault: most others must have it on.
    expr=f"{_MODES} == 0\nand on (cluster, model) avg by (cluster, model) ({_MODES}) > 0.5",
    for_="30m",
    keep_firing_for="15m",
    title="ECC switched off",
    meaning="ECC of a GPU is off while it is on for most GPUs of its model.",
    summary=f"{GPU} has ECC switched off",
    description=f"{GPU} has ECC switched off, unlike most {{{{ $labels.model }}}} here: memory errors go into results "
    f"unseen. Switch it on (nvidia-smi -e 1) and reset the GPU. {HIT}",
)
_SLOWED = ("power_limit", "hw_slowdown", "limited")
"""Findings of a slow GPU, the one that can explain the others first."""


def _mostly(finding: str) -> str:
    """Return the condition that a GPU has a finding for more than half of the window.

    `max` leaves no series behind that compares as false: beside one, VictoriaMetrics takes no other by `or`.
    """
    return f"""\
max without (job) (count_over_time(gpu_finding{{finding="{finding}"}}[<window>])
  > on {_DEVICE} group_left () 0.5 * max by {_DEVICE} (count_over_time(gpu_up[<window>])))"""


LIMITED = Alert(
    name="GpuPerformanceLimited",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    # Work comes in bursts, and with it the finding: what it has most of the time counts. A GPU has one alert: its power
    # limit or the hardware can be the reason of a low clock.
    expr=f"\nor on {_DEVICE} ".join(map(_mostly, _SLOWED)),
    for_="15m",
    keep_firing_for="30m",
    params=(Param("window", "10m", Unit.DURATION, "Time in more than half of which it is limited."),),
    title="GPU is slow: limit or clock",
    meaning="A low power limit, a low clock under load or the hardware itself slows a GPU down.",
    summary=f"{GPU} is slower than it can be",
    description=f"The power limit or the SM clock under load of {GPU} is below half of what it can be, or the hardware "
    "holds its clocks down. "
    + by_value("$labels.finding", {each: f"{first_step(each)}." for each in _SLOWED})
    + f" {HIT}",
)

HARDWARE = (
    THERMAL,
    POWER_BRAKE,
    XID_WORKFLOW,
    RECOVERY,
    RESET_PENDING,
    LOST,
    *LINKS,
    MEMORY_LEAKED,
    MEMORY_WEARING,
    ECC_DISABLED,
    LIMITED,
)
