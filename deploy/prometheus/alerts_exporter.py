"""Alerts to on-call about the driver and the exporter itself: without them the other alerts are blind."""

from __future__ import annotations

from deploy.prometheus.declaration import Alert, Audience, Param, Severity, Unit
from deploy.prometheus.outages import held_firing, lately
from deploy.prometheus.targets import exporters
from deploy.prometheus.wording import NODE, NODE_HIT

_MISMATCH = "LIB_RM_VERSION_MISMATCH"
_UNASKED = (
    '{{ with printf `last_over_time(gpu_exporter_thread_up{thread="driver",cluster=%q,instance=%q}[6m]) == 0'
    ' and on (cluster, instance) last_over_time(gpu_exporter_driver_error{error="NOT_OPENED"}[6m])`'
    " $labels.cluster $labels.instance | query }}"
)
"""Where no thread could be started that would ask the driver."""

_MAINTENANCE = Param(
    "maintenance",
    "kube_node_spec_unschedulable == 1"
    ' or kube_node_spec_taint{key=~".*maintenance.*|node.kubernetes.io/out-of-service"} == 1',
    Unit.SELECTOR,
    "Series with the label `node` that exist while a node is in maintenance.",
)

EXPORTER = (
    Alert(
        name="GpuNodeWithoutExporter",
        audience=Audience.ONCALL,
        severity=Severity.WARNING,
        expr=f"""\
max by (cluster, node) (kube_node_status_capacity{{resource=~"nvidia_com_(gpu|mig_).*"}}) > 0
unless on (cluster, node) max by (cluster, node) {exporters()}
unless on (cluster, node) max by (cluster, node) (<maintenance>)
and on (cluster) count by (cluster) {exporters('node!=""')}""",
        for_="15m",
        keep_firing_for="10m",
        params=(_MAINTENANCE,),
        summary="{{ $labels.node }} has GPUs and no exporter",
        description="Kubernetes counts {{ $value }} NVIDIA devices on node {{ $labels.node }}, and Prometheus scrapes "
        "no GPU exporter there: nothing is known of its GPUs. Most likely the node lacks the label or the room that "
        "the exporter's pod asks for.",
    ),
    Alert(
        name="GpuSampleStale",
        audience=Audience.ONCALL,
        severity=Severity.WARNING,
        expr="""\
(gpu_exporter_device_sample_age_seconds > <age> unless on (cluster, instance, uuid) gpu_up == 0)
or on (cluster, instance, uuid)
time() - gpu_fault_timestamp_seconds{fault="gpu_slow"}
or on (cluster, instance)
(
  rate(gpu_exporter_sampling_cycles_total[5m]) == 0
  or on (cluster, instance)
  min without (thread) (gpu_exporter_thread_up{thread=~"driver|gpus.*"}) == 0
)""",
        for_="2m",
        keep_firing_for="10m",
        params=(Param("age", 60, Unit.SECONDS, "Age of a GPU's last good reading."),),
        summary="{{ if $labels.uuid }}GPU {{ $labels.gpu }} of {{ end }}" + NODE + " has stale readings",
        description="{{ if $labels.uuid }}GPU {{ $labels.gpu }} of " + NODE + " was last read "
        "{{ $value | humanizeDuration }} ago{{ else }}The exporter of " + NODE + " takes no samples{{ end }}: "
        "the driver hangs, or the node is out of CPU, memory or processes. " + NODE_HIT,
    ),
    Alert(
        name="GpuDriverMismatch",
        audience=Audience.ONCALL,
        severity=Severity.CRITICAL,
        expr=held_firing("GpuDriverMismatch", lately(f'gpu_exporter_driver_error{{error="{_MISMATCH}"}}')),
        for_="5m",
        summary=f"Driver and library of {NODE} differ in version",
        description=f"The kernel module and the user-space library of {NODE} differ in version (an upgrade without a "
        "restart): no new GPU program can start. Drain the node, then reload the module or restart.",
    ),
    Alert(
        name="GpuDriverUnavailable",
        audience=Audience.ONCALL,
        severity=Severity.CRITICAL,
        # An exporter that restarts to get the driver back is away for minutes between its tries.
        expr=held_firing("GpuDriverUnavailable", lately(f'gpu_exporter_driver_error{{error!~"{_MISMATCH}|RELEASED"}}')),
        for_="10m",
        summary=f"{_UNASKED}The exporter of {NODE} cannot start a thread to open the driver{{{{ else }}}}"
        f"The GPU driver of {NODE} does not open{{{{ end }}}}",
        description=f"{_UNASKED}The exporter of {NODE} cannot start the thread that opens the driver, mostly for a "
        "limit on processes or memory: nobody asked the driver, which may be well. No GPU of the node is watched."
        f"{{{{ else }}}}The exporter of {NODE} cannot open the driver: {{{{ $labels.error }}}}"
        "{{ if eq $labels.error `NOT_OPENED` }} (it was asked, and has not answered){{ end }}. No GPU of the node is "
        "watched, and most likely none can be used.{{ end }}",
    ),
    Alert(
        name="GpuDriverSkew",
        audience=Audience.ONCALL,
        severity=Severity.INFO,
        # One node that misses a scrape must not let the day begin anew.
        expr="count by (cluster) (count by (cluster, driver) (last_over_time(gpu_driver_info[15m]))) > <versions>",
        for_="1d",
        params=(Param("versions", 1, Unit.COUNT, "Driver versions a cluster may have."),),
        summary="Several driver versions in one cluster",
        description="{{ $value }} driver versions have been in use{{ with $labels.cluster }} in {{ . }}{{ end }} for a "
        "day. Jobs over several nodes may fail: finish the upgrade.",
    ),
    Alert(
        name="GpuAttributionFailing",
        audience=Audience.ONCALL,
        severity=Severity.WARNING,
        expr="""\
gpu_exporter_attribution_success == 0
or gpu_exporter_attribution_conflicts{source="slurm_steps"} > 0""",
        for_="10m",
        keep_firing_for="15m",
        summary=f"{NODE} does not know who holds its GPUs",
        description=f"{{{{ if $value }}}}GPUs of {NODE} that Slurm allocates to several jobs: {{{{ $value }}}}. Each "
        f"job has a fraction of them{{{{ else }}}}Source {{{{ $labels.source }}}} of {NODE} does not answer: GPU time "
        "is booked on nobody, and alerts to owners of this node may be missing{{ end }}.",
    ),
    Alert(
        name="GpuNodeSourceFailing",
        audience=Audience.ONCALL,
        severity=Severity.INFO,
        expr="gpu_exporter_node_source_success == 0",
        for_="30m",
        keep_firing_for="15m",
        summary=f"{{{{ $labels.source }}}} does not say what {NODE} should have",
        description=f"{{{{ $labels.source }}}} does not answer {NODE}'s exporter, or refuses: how many GPUs the node "
        "should have, and whether it is in maintenance, is known from the other sources alone.",
    ),
    Alert(
        name="GpuCollectorFailing",
        audience=Audience.ONCALL,
        severity=Severity.INFO,
        # XIDs come by themselves, to threads of their own: nobody who asks would notice that none is heard of any more.
        expr="""\
gpu_scrape_collector_success == 0
or
label_replace(max without (source) (gpu_exporter_xid_source_up) == 0, "collector", "xid", "", "")""",
        for_="15m",
        keep_firing_for="15m",
        summary=f"Collector {{{{ $labels.collector }}}} of {NODE} fails",
        description=f"Collector {{{{ $labels.collector }}}} of {NODE} keeps failing: "
        "{{ if eq $labels.collector `xid` }}no XID is heard of, from the driver or from the kernel log"
        "{{ else }}its series are missing{{ end }}. See the exporter's log.",
    ),
    Alert(
        name="GpuExporterSimulated",
        audience=Audience.ONCALL,
        severity=Severity.INFO,
        expr="gpu_exporter_simulated == 1",
        for_="5m",
        keep_firing_for="10m",
        summary=f"{NODE} reports simulated GPUs",
        description=f"The exporter of {NODE} was started with --simulate: none of its numbers is real.",
    ),
    Alert(
        name="GpuNodeMaintenance",
        audience=Audience.ONCALL,
        severity=Severity.INFO,
        # A node that said so of itself and was then switched off is still in maintenance: the recording remembers.
        expr=f"""\
instance:gpu_node_maintenance:last
or on (cluster, instance)
(
  max by (cluster, node, instance) {exporters()} * 0 + 1
  and on (cluster, node) max by (cluster, node) (<maintenance>)
)""",
        # A scrape of kube-state-metrics that fails must not let loose what this alert inhibits.
        keep_firing_for="5m",
        params=(_MAINTENANCE,),
        summary=f"{NODE} is in maintenance",
        description=f"{NODE} is taken out of service on purpose. Alertmanager inhibits its other alerts to on-call.",
    ),
)
