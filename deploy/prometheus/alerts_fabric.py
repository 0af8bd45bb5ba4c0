"""Alerts to on-call about what is between the GPUs: NVSwitches, and the network ports next to them."""

from __future__ import annotations

from deploy.prometheus.declaration import Alert, Audience, Severity
from deploy.prometheus.outages import keep_while_silent
from deploy.prometheus.wording import NODE, NODE_HIT, first_step, timestamp

SWITCH = Alert(
    name="GpuNvswitchError",
    audience=Audience.ONCALL,
    severity=Severity.CRITICAL,
    # An error that does not end the fabric's work is reported by the check, and is no alert.
    expr=keep_while_silent("GpuNvswitchError", 'gpu_fault_timestamp_seconds{fault="nvswitch"}'),
    title="Fatal NVSwitch error",
    meaning="An NVSwitch reported a fatal error, so that work over its links hangs or ends.",
    summary=f"{NODE} has a fatal NVSwitch error ({{{{ $labels.evidence }}}})",
    description=f"{NODE} has a fatal NVSwitch error ({{{{ $labels.evidence }}}}) since {timestamp()}: "
    f"work over the links of this switch hangs or ends. {first_step('nvswitch')}. {NODE_HIT}",
)

_NEAREST = (
    "{{ with printf `max by (gpu) (gpu_rdma_port_nearest_gpu_info{cluster=%q,instance=%q,device=%q,port=%q})`"
    " $labels.cluster $labels.instance $labels.device $labels.port | query }}, nearest to GPU"
    " {{ range $i, $near := sortByLabel `gpu` . }}{{ if $i }}, {{ end }}{{ $near.Labels.gpu }}{{ end }},{{ end }}"
)

PORT = Alert(
    name="GpuNetworkPortDegraded",
    audience=Audience.ONCALL,
    severity=Severity.WARNING,
    expr="max by (cluster, node, instance, device, port, reason) (gpu_rdma_port_degraded) == 1",
    for_="5m",
    keep_firing_for="15m",
    title="Network port degraded",
    meaning="An InfiniBand or RoCE port of a node is down, slow, or counts errors.",
    summary=f"{NODE} network port {{{{ $labels.device }}}}/{{{{ $labels.port }}}} is "
    "{{ if eq $labels.reason `errors` }}counting errors{{ else }}{{ $labels.reason }}{{ end }}",
    description=f"{NODE} network port {{{{ $labels.device }}}}/{{{{ $labels.port }}}}{_NEAREST} is "
    "{{ if eq $labels.reason `down` }}down{{ else if eq $labels.reason `slow` }}slower than it was, or than its like"
    "{{ else }}counting errors{{ end }}. Jobs over several nodes wait for it, or fall back to a slower network. "
    f"{first_step('port_degraded')}. {NODE_HIT}",
)

FABRIC = (SWITCH, PORT)
