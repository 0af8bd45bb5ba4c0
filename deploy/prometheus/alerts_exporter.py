"""Alerts to on-call about the driver and the exporter itself: without them the other alerts are blind."""

from __future__ import annotations

from deploy.prometheus.declaration import Alert, Audience, Param, Severity, Unit
from deploy.prometheus.outages import keep_firing_while_silent, lately
from deploy.prometheus.recordings_fleet import NEW_NODE
from deploy.prometheus.targets import POWERED_DOWN, exporters
from deploy.prometheus.wording import GPU, NODE, NODE_HIT, counted, first_step, percent
from exporter.faults.findings import LOAD, REFUSED, RELOAD

_MISMATCH = "{{ if eq $labels.error `LIB_RM_VERSION_MISMATCH` }}"
_UNASKED = (
    '{{ with printf `last_over_time(gpu_exporter_thread_up{thread="driver",cluster=%q,instance=%q}[6m]) == 0'
    ' and on (cluster, instance) last_over_time(gpu_exporter_driver_error{error="NOT_OPENED"}[6m])`'
    " $labels.cluster $labels.instance | query }}"
)
"""Condition that no thread could be started that would ask the driver."""

_READ_LOG = f"{first_step('owners')}."

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
unless on (cluster, node) (max by (cluster, node) (<maintenance>) or {NEW_NODE.record})
and on (cluster) count by (cluster) {exporters('node!=""')}""",
        for_="15m",
        keep_firing_for="10m",
        params=(_MAINTENANCE,),
        title="GPUs, and no exporter",
        meaning="A node of Kubernetes has GPUs, and Prometheus scrapes no GPU exporter there.",
        summary="{{ $labels.node }} has GPUs and no exporter",
        description=f"Kubernetes counts {counted('NVIDIA device')} on {{{{ $labels.node }}}}, and Prometheus scrapes "
        "no GPU exporter there: nothing is known of its GPUs. Most likely the node lacks the label or the room that "
        "the exporter's pod asks for.",
    ),
    Alert(
        name="GpuSampleStale",
        audience=Audience.ONCALL,
        severity=Severity.WARNING,
        # A lost GPU has an alert of its own.
        expr="""\
gpu_exporter_device_sample_age_seconds > <max_age_seconds> unless on (cluster, instance, uuid) gpu_up == 0
or on (cluster, instance, uuid) time() - gpu_fault_timestamp_seconds{fault="gpu_slow"}
or on (cluster, instance) rate(gpu_exporter_sampling_cycles_total[5m]) == 0
or on (cluster, instance) min without (thread) (gpu_exporter_thread_up{thread=~"driver|gpus.*"}) == 0
or on (cluster, instance) label_replace(changes(up[<window>]) >= <max_changes>, "scrape", "flaps", "", "")
  and on (cluster, job, instance) target:gpu_exporter:last""",
        for_="2m",
        keep_firing_for="10m",
        params=(
            Param("max_age_seconds", 60, Unit.SECONDS, "Age of a GPU's last good reading."),
            Param("max_changes", 6, Unit.COUNT, "Times the target may go down or come back."),
            Param("window", "30m", Unit.DURATION, "Time these are counted over."),
        ),
        title="Readings stale or with gaps",
        meaning="Readings of a node are stale, or scrapes of its exporter fail again and again.",
        summary=NODE + "{{ if $labels.uuid }} GPU {{ $labels.gpu }}{{ end }} has {{ if $labels.scrape }}gaps in its"
        "{{ else }}stale{{ end }} readings",
        description="{{ if $labels.scrape }}{{ $labels.instance }} (job {{ $labels.job }}) went down or came back "
        "{{ $value }} times in <window>: counters have gaps, and alerts about its GPUs come late. Look at the "
        "network, the "
        "scrape time-out and the node.{{ else }}{{ if $labels.uuid }}" + GPU + " was last read "
        "{{ $value | humanizeDuration }} ago{{ else }}The exporter of " + NODE + " takes no samples{{ end }}: "
        "the driver hangs, or the node is out of CPU, memory or processes.{{ if $labels.uuid }} "
        + first_step("gpu_slow")
        + ".{{ end }} "
        + NODE_HIT
        + "{{ end }}",
    ),
    Alert(
        name="GpuDriverUnavailable",
        audience=Audience.ONCALL,
        severity=Severity.CRITICAL,
        # An exporter that restarts to get the driver back is away for minutes between its tries.
        expr=keep_firing_while_silent("GpuDriverUnavailable", lately('gpu_exporter_driver_error{error!="RELEASED"}')),
        for_="10m",
        title="GPU driver does not open",
        meaning="The exporter cannot open the driver of a node: no GPU of it is watched.",
        summary=NODE + f" has a GPU driver that {_MISMATCH}differs in version from its library{{{{ else }}}}does not "
        f"open{{{{ end }}}}",
        description=f"{_MISMATCH}The kernel module and the user-space library of {NODE} differ in version (an upgrade "
        f"without a restart): no new GPU program can start. {RELOAD}"
        f"{{{{ else if eq $labels.error `{REFUSED}` }}}}The exporter of {NODE} may not open the driver ({REFUSED}), "
        f"and watches no GPU: the GPUs may be well. Let the exporter open /dev/nvidiactl."
        f"{{{{ else }}}}{_UNASKED}The exporter of {NODE} cannot start the thread that opens the driver, mostly for a "
        "limit on processes or memory: the driver may be well. No GPU of the node is watched."
        f"{{{{ else }}}}The exporter of {NODE} cannot open the driver: {{{{ $labels.error }}}}"
        "{{ if eq $labels.error `NOT_OPENED` }} (it was asked, and has not answered){{ end }}. No GPU of the node is "
        "watched, and most likely none can be used. "
        f"{{{{ if eq $labels.error `NOT_OPENED` }}}}{first_step('driver_hangs')}.{{{{ else }}}}{LOAD}{{{{ end }}}}"
        "{{ end }}{{ end }}",
    ),
    Alert(
        name="GpuDriverSkew",
        audience=Audience.ONCALL,
        severity=Severity.INFO,
        # One node that misses a scrape must not let the day begin anew.
        expr="count by (cluster) (count by (cluster, driver) (last_over_time(gpu_driver_info[15m]))) > <max_versions>",
        for_="1d",
        params=(Param("max_versions", 1, Unit.COUNT, "Driver versions a cluster may have."),),
        title="Several driver versions",
        meaning="The nodes of one cluster have had different driver versions for a day.",
        summary="{{ with $labels.cluster }}{{ . }} has {{ end }}{{ $value }} driver versions",
        description="{{ $value }} driver versions have been in use{{ with $labels.cluster }} in {{ . }}{{ end }} for a "
        "day. Jobs over several nodes may fail: finish the upgrade.",
    ),
    Alert(
        name="GpuSourceFailing",
        audience=Audience.ONCALL,
        severity=Severity.WARNING,
        # XIDs come by themselves, to threads of their own: nobody who asks would notice that none is heard of any more.
        # Of a GPU that is down, no collector reads anything: that is one alert.
        expr="""\
gpu_finding{finding=~"utilization_stuck|inventory|reference"} \
or label_replace(gpu_exporter_attribution_success == 0, "of", "owners", "", "")
or label_replace(gpu_exporter_attribution_conflicts{source="slurm_steps"} > 0, "of", "shared", "", "")
or label_replace(gpu_exporter_node_source_success == 0, "of", "node", "", "") \
or label_replace(gpu_exporter_fault_state_saved == 0 or gpu_exporter_faults_incomplete, "of", "faults", "", "")
or gpu_scrape_collector_success == 0 unless on (cluster, instance) gpu_up == 0
or label_replace(max without (source) (gpu_exporter_xid_source_up) == 0, "collector", "xid", "", "")
or label_replace((gpu_accounting_scheduler_difference_ratio or cluster:gpu_accounting_difference:ratio)\
 > <max_difference_ratio>, "source", "accounting", "", "")""",
        params=(
            Param(
                "max_difference_ratio",
                0.05,
                Unit.RATIO,
                "GPU time that the scheduler or the recorded totals count differently.",
            ),
        ),
        for_="15m",
        keep_firing_for="15m",
        title="A data source fails",
        meaning="A source fails or contradicts another, a GPU is unlike the reference, or faults are not saved.",
        summary="{{ if eq $labels.source `accounting` }}The accounting differs from the scheduler "
        "or the recorded totals by "
        + percent()
        + "{{ else if $labels.finding }}"
        + NODE
        + "{{ if eq $labels.finding `reference` }} GPU {{ $labels.gpu }} is unlike --expect.reference"
        "{{ else if $labels.gpu }} GPU {{ $labels.gpu }} has a stuck utilization{{ else }} has two numbers of expected "
        "GPUs{{ end }}{{ else if eq $labels.of `faults` }}"
        + NODE
        + "{{ if $labels.cause }} may have faults that are not known{{ else }} cannot save its faults{{ end }}"
        "{{ else if eq $labels.of `shared` }}" + NODE + " has GPUs that Slurm allocates to several jobs"
        "{{ else if eq $labels.source `acknowledgements` }}" + NODE + " cannot read its acknowledgements"
        "{{ else }}" + NODE + " gets no data from "
        "{{ or $labels.source $labels.collector }}{{ end }}",
        description="{{ if eq $labels.source `accounting` }}The accounting and the scheduler, or the "
        "recorded totals of a day, differ in "
        + percent()
        + " of the GPU time. Read the log of gpu-exporter accounting: "
        "it names jobs and unread nodes.{{ else if eq $labels.of `shared` }}"
        "GPUs of " + NODE + " that Slurm allocates to several jobs: {{ $value }}. Each job has a fraction of them. "
        "Compare the jobs: scontrol -d show job.{{ else if eq $labels.of `owners` }}Source {{ $labels.source }} of "
        + NODE
        + " fails: GPU time has no owner, and alerts to owners of this node may be missing. "
        + _READ_LOG
        + "{{ else if eq $labels.source `acknowledgements` }}The file of acknowledgements of "
        + NODE
        + " cannot be read in full: acknowledged faults may still count. "
        + _READ_LOG
        + "{{ else if eq $labels.of `node` }}{{ $labels.source }} does not reply to the exporter of "
        + NODE
        + ", or refuses: how many GPUs the node should have, and whether it is "
        "in maintenance, is known from the other sources alone. "
        + _READ_LOG
        + "{{ else if eq $labels.of `faults` }}{{ if $labels.cause }}The state file of "
        + NODE
        + " was not understood ({{ $labels.cause }}): faults from before may be missing. Read faults.json."
        "{{ $labels.cause }} in --state.dir, then remove it.{{ else }}The exporter of "
        + NODE
        + " cannot write its state file, and forgets faults when it restarts. "
        + first_step("fault_state")
        + ".{{ end }}{{ else if eq $labels.finding `inventory` }}gres.conf and Kubernetes state different numbers of "
        f"GPUs for {NODE}. {first_step('inventory')}."
        f"{{{{ else if eq $labels.finding `reference` }}}}{GPU} differs from --expect.reference. "
        f"{first_step('reference')}."
        f"{{{{ else if $labels.finding }}}}{GPU} reports full use in an idle performance state, without a process. "
        f"Its utilization means nothing. {first_step('utilization_stuck')}."
        f"{{{{ else }}}}Collector {{{{ $labels.collector }}}} of {NODE} fails: "
        "{{ if eq $labels.collector `xid` }}no XID arrives from the driver or from the kernel log"
        f"{{{{ else }}}}its series are missing{{{{ end }}}}. {_READ_LOG}{{{{ end }}}}",
    ),
    Alert(
        name="GpuExporterSimulated",
        audience=Audience.ONCALL,
        severity=Severity.INFO,
        expr="gpu_exporter_simulated == 1",
        for_="5m",
        keep_firing_for="10m",
        title="Simulated GPUs",
        meaning="An exporter that Prometheus scrapes reports simulated GPUs.",
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
  and on (cluster, node) (max by (cluster, node) (<maintenance>) or {NEW_NODE.record} or {POWERED_DOWN})
)""",
        # A scrape of kube-state-metrics that fails must not let loose what this alert inhibits.
        keep_firing_for="5m",
        params=(_MAINTENANCE,),
        title="In maintenance",
        meaning="A node is in maintenance, or new and not ready: its faults are not paged.",
        summary=f"{NODE} is in maintenance",
        description=f"{NODE} is out of service on purpose, switched off by Slurm, or is new and not ready yet. "
        "Alertmanager inhibits its other alerts to on-call.",
    ),
)
