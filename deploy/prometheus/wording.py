"""Pieces of template the texts of several alerts share. Prometheus expands them when it evaluates the alert."""

from __future__ import annotations

from collections.abc import Mapping

from deploy.prometheus.outages import unless_silent
from deploy.prometheus.states import ADVICE, LOST, POSSIBLY_LOST, TITLES, regex

NODE = "{{ or $labels.node $labels.instance }}"
GPU = "GPU {{ $labels.gpu }} of " + NODE
OWNER = (
    "{{ $labels.workload }}"
    "{{ if $labels.user }} of {{ $labels.user }}{{ end }}"
    "{{ if $labels.account }} (account {{ $labels.account }}){{ end }}"
)

# A workload is named once, whatever holds the GPU for it: containers, MIG instances, or one share that two jobs scrape.
_HOLDERS = (
    "max by (workload, user) (gpu_allocation_ratio{cluster=%[1]q,instance=%[2]q,uuid=%[3]q} > 0"
    " or gpu_mig_allocation_ratio{cluster=%[1]q,instance=%[2]q,parent_uuid=%[3]q} > 0)"
)
_NODE_HOLDERS = "sum by (workload) (gpu_workload_allocated_gpus{cluster=%[1]q,instance=%[2]q}) > 0"
_LIST = (
    '{{ range $i, $holder := sortByLabel "workload" . }}'
    "{{ if $i }}, {{ end }}{{ $holder.Labels.workload }}{{ with $holder.Labels.user }} ({{ . }}){{ end }}{{ end }}"
)
HIT = unless_silent(
    f"{{{{ with printf `{_HOLDERS}` $labels.cluster $labels.instance $labels.uuid | query }}}}"
    f"It hits {_LIST}.{{{{ else }}}}No workload holds the GPU.{{{{ end }}}}"
)
"""Who has the GPU. Some alerts outlast the series of a node that falls silent, with those of its owners."""
NODE_HELD = (
    f"{{{{ with printf `{_NODE_HOLDERS}` $labels.cluster $labels.instance | query }}}}"
    f"Workloads on the node: {_LIST}.{{{{ else }}}}No workload holds a GPU of the node.{{{{ end }}}}"
)
"""For a text that says itself where the node is silent."""
NODE_HIT = unless_silent(NODE_HELD)

_SECONDS = "gpu_workload_gpu_seconds_total{cluster=%[1]q,workload=%[2]q"
_TOP_STATE = (
    f'topk(1, sum by (state) (rate({_SECONDS},state=~"{regex((*LOST, *POSSIBLY_LOST))}"}}[<window>]))'
    f' / scalar(sum(rate({_SECONDS},state!="unobserved"}}[<window>]))) > 0)'
)


def _by_state(text: Mapping[str, str], otherwise: str = "") -> str:
    """The text of the state of the first result; `otherwise` for one that has none."""
    branches = "{{ else if ".join(f"eq .Labels.state `{state}` }}}}{words}" for state, words in text.items())
    last = f"{{{{ else }}}}{otherwise}" if otherwise else ""
    return f"{{{{ if {branches}{last}{{{{ end }}}}"


_COMPUTES = "It computes: compare its clocks, its links and its part of the work."
_MEANWHILE = {state: f"{title}. {ADVICE.get(state, _COMPUTES)}" for state, title in TITLES.items()}
_LOST_ON = {
    state: f"{TITLES[state]} ({{{{ .Value | humanizePercentage }}}} of its GPU time). {text}"
    for state, text in ADVICE.items()
}
_OF_OTHERS = 'state!~"wait_collective|wait_peer|free|unobserved"'


def _own_state(selector: str, *values: str) -> str:
    """What a GPU, or the GPUs of a node, that others wait for do meanwhile."""
    query = f"topk(1, sum by (state) (rate({selector}[<window>])) > 0)"
    return (
        f"{{{{ with printf `{query}` {' '.join(values)} | query }}}}"
        f"{{{{ with first . }}}} Meanwhile mostly: {_by_state(_MEANWHILE)}{{{{ end }}}}{{{{ end }}}}"
    )


_OF_GPU = ("$labels.cluster", "$gpu.Labels.instance", "$gpu.Labels.uuid")
_STATE_OF_GPU = _own_state(f"gpu_state_seconds_total{{cluster=%[1]q,instance=%[2]q,uuid=%[3]q,{_OF_OTHERS}}}", *_OF_GPU)
_PORT_OF_GPU = (
    "{{ with printf `gpu_rdma_port_degraded{cluster=%[1]q,instance=%[2]q} == 1"
    " and on (cluster, instance, device, port)"
    " gpu_rdma_port_nearest_gpu_info{cluster=%[1]q,instance=%[2]q,uuid=%[3]q}`"
    f" {' '.join(_OF_GPU)} | query }}}}{{{{ with first . }}}}"
    " Its network port {{ .Labels.device }}/{{ .Labels.port }} is in trouble: "
    "{{ reReplaceAll `_` ` ` .Labels.reason }}."
    "{{ end }}{{ end }}"
)
"""A slow way to other nodes, where the port nearest to the GPU has one."""
_NAMED_GPU = "GPU {{ $gpu.Labels.gpu }} of {{ or $gpu.Labels.node $gpu.Labels.instance }}"


def _three(expr: str) -> str:
    """The three GPUs with most of it, each once, also while a node has an old and a new exporter."""
    return f"topk(3, topk by (uuid) (1, max by (node, instance, gpu, uuid) ({expr})))"


_STRAGGLERS = (
    f"printf `{_three('rate(gpu_workload_straggler_seconds_total{cluster=%[1]q,workload=%[2]q}[<window>])')} > <share>`"
    " $labels.cluster $labels.workload | query"
)
STRAGGLERS = f"{{{{ range $i, $gpu := {_STRAGGLERS} }}}}{{{{ if $i }}}}, {{{{ end }}}}{_NAMED_GPU}{{{{ end }}}}"
STATES_OF_STRAGGLERS = (
    f"{{{{ range $gpu := {_STRAGGLERS} }}}} {_NAMED_GPU}: {{{{ $gpu.Value | humanizePercentage }}}}"
    f" of the last <window>.{_PORT_OF_GPU}{_STATE_OF_GPU}{{{{ end }}}}"
)
"""The three GPUs that the others wait for longest, and why. Need the parameters `window` and `share`."""
_RAISED = (
    '(gpu_xid_last_timestamp_seconds{cluster=%[1]q,class="restart_app"} > time() - 600)'
    " * on (cluster, instance, uuid) group_left ()"
    " max by (cluster, instance, uuid) (gpu_allocation_ratio{cluster=%[1]q,workload=%[2]q} offset <recent> == 1)"
)
_ASKED = "$labels.cluster $labels.workload | query"
XIDS = (
    f'{{{{ range $i, $xid := printf `count by (xid) ({_RAISED})` {_ASKED} | sortByLabel "xid" }}}}'
    "{{ if $i }}, {{ end }}{{ $xid.Labels.xid }}{{ end }}"
)
GPUS_OF_XIDS = (
    f"{{{{ range $i, $gpu := printf `{_three(_RAISED)}` {_ASKED} }}}}"
    f"{{{{ if $i }}}}, {{{{ end }}}}{_NAMED_GPU}{{{{ end }}}}"
)
"""The XIDs of a workload's program, and three of the GPUs that they were on. Need the parameter `recent`."""
STATE_OF_NODE = _own_state(
    f"gpu_workload_gpu_seconds_total{{cluster=%[1]q,instance=%[2]q,workload=%[3]q,{_OF_OTHERS}}}",
    "$labels.cluster",
    "$labels.instance",
    "$labels.workload",
)
"""Why the others wait. Need the parameter `window`."""


TOP_STATE = (
    f"{{{{ with printf `{_TOP_STATE}` $labels.cluster $labels.workload | query }}}}{{{{ with first . }}}}"
    f" Most of the lost time: {_by_state(_LOST_ON)}{{{{ end }}}}{{{{ end }}}}"
)
"""The state that costs the workload most, and what to do about it. Needs the parameter `window`."""
