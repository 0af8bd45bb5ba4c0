"""Pieces of template the texts of several alerts share. Prometheus expands them when it evaluates the alert."""

from __future__ import annotations

import re
from collections.abc import Mapping

from deploy.prometheus.hosts import by_host
from deploy.prometheus.outages import unless_silent
from deploy.prometheus.recordings_common import STATE_INDEX
from deploy.prometheus.states import LOST, POSSIBLY_LOST, regex
from exporter.faults.rules import RULES
from exporter.tools.report.promql import WORKLOAD_PRICE

NODE = "{{ or $labels.node $labels.instance }}"
GPU = NODE + " GPU {{ $labels.gpu }}"
PERCENT = (
    "printf `%.2f` | reReplaceAll `^0[.]0?([0-9]+)$` `${1} %` | reReplaceAll `^([0-9]+)[.]([0-9]{2})$` `${1}${2} %`"
)


def percent(value: str = "$value") -> str:
    """A ratio as people write it: "56 %"."""
    return f"{{{{ {value} | {PERCENT} }}}}"


def threshold(param: str) -> str:
    """A parameter that is a ratio, as people write it."""
    return f"{{{{ `<{param}>` | humanizePercentage | reReplaceAll `%$` ` %` }}}}"


def counted(noun: str, value: str = "$value", more: str = "s") -> str:
    """A number and its noun: "1 GPU", "4 GPUs"."""
    return f"{{{{ {value} }}}} {noun}{{{{ if ne {value} 1.0 }}}}{more}{{{{ end }}}}"


def found(query: str, text: str, *labels: str, otherwise: str = "") -> str:
    """`text` about the first series that `query` finds, with these labels of the alert in its places."""
    asked = f"printf `{query}` {' '.join(f'$labels.{label}' for label in labels)} | query"
    nothing = f"{{{{ else }}}}{otherwise}" if otherwise else ""
    return f"{{{{ with {asked} }}}}{{{{ with first . }}}}{text}{{{{ end }}}}{nothing}{{{{ end }}}}"


def listed(title: str, query: str, shown: str, *values: str) -> str:
    """Return the text of the series that `query` finds with these values in its places."""
    return f"{{{{ with printf `{query}` {' '.join(values)} | query }}}} {title}:{shown}.{{{{ end }}}}"


def nodes_by(label: str) -> str:
    """Return the text of series that count nodes: "r1 (3 nodes), r2 (1 node)"."""
    return (
        f'{{{{ range $i, $in := sortByLabel "{label}" . }}}}{{{{ if $i }}}},{{{{ end }}}} {{{{ $in.Labels.{label} }}}}'
        f" ({counted('node', '$in.Value')}){{{{ end }}}}"
    )


def timestamp(value: str = "$value") -> str:
    """Return Unix seconds as a date with hours and minutes, UTC."""
    return f"{{{{ {value} | humanizeTimestamp | reReplaceAll `:[0-9]{{2}}([.][0-9]+)? [+]0000` `` }}}}"


def size(value: str = "$value") -> str:
    """Return bytes with their unit: "20 GiB"."""
    return f"{{{{ {value} | humanize1024 | reReplaceAll `[A-Z]i$` ` ${{0}}` }}}}B"


_JOB_NAME = 'max by (job_name) (last_over_time(gpu_workload_info{cluster=%q,workload=%q,job_name!=""}[1h]))'


def job_name(cluster: str = "$labels.cluster", workload: str = "$labels.workload") -> str:
    """Return the name that the owner gave the job, in quotes, where it has one."""
    return (
        f"{{{{ with printf `{_JOB_NAME}` {cluster} {workload} | query }}}}"
        "{{ with first . }} {{ printf `%q` .Labels.job_name }}{{ end }}{{ end }}"
    )


OWNER_NAME = (
    f"{{{{ $labels.workload }}}}{job_name()}"
    "{{ if $labels.user }} of {{ $labels.user }}{{ end }}"
    "{{ if $labels.account }} (account {{ $labels.account }}){{ end }}"
)
MONEY = "{{ .Value | printf `%.2f` }} {{ .Labels.currency }}"
HOURLY = found(
    f"sum by (currency) ({WORKLOAD_PRICE}{{cluster=%[1]q,workload=%[2]q}})",
    f" Its GPUs cost {MONEY} an hour.",
    "cluster",
    "workload",
)
"""Cost of the workload's GPUs, where the site has prices."""


def of_gpu(query: str, text: str, otherwise: str = "") -> str:
    """`text` about what `query` finds of the alert's GPU, which `<gpu>` selects."""
    return found(query.replace("<gpu>", _SAME_GPU), text, "cluster", "instance", "uuid", otherwise=otherwise)


_SAME_GPU = "cluster=%[1]q,instance=%[2]q,uuid=%[3]q"

_ALLOCATED = "gpu_workload_allocated_gpus{cluster=%[1]q,workload=%[2]q}"
ALLOCATED = found(
    f"sum(max by (host, workload_pod, workload_container) ({by_host(_ALLOCATED)}))",
    "{{ .Value }} GPU{{ if ne .Value 1.0 }}s{{ end }}",
    "cluster",
    "workload",
)

# A workload is named once, whatever has the GPU for it: containers, MIG instances, or one share that two jobs scrape.
_HOLDERS = (
    "max by (workload, user) (gpu_allocation_ratio{cluster=%[1]q,instance=%[2]q,uuid=%[3]q} > 0"
    " or gpu_mig_allocation_ratio{cluster=%[1]q,instance=%[2]q,parent_uuid=%[3]q} > 0)"
)
_NODE_HOLDERS = "sum by (workload) (gpu_workload_allocated_gpus{cluster=%[1]q,instance=%[2]q}) > 0"
_LIST = (
    '{{ range $i, $holder := sortByLabel "workload" . }}'
    "{{ if $i }}, {{ end }}{{ $holder.Labels.workload }}"
    + job_name(workload="$holder.Labels.workload")
    + "{{ with $holder.Labels.user }} ({{ . }}){{ end }}{{ end }}"
)
HIT = unless_silent(
    f"{{{{ with printf `{_HOLDERS}` $labels.cluster $labels.instance $labels.uuid | query }}}}"
    f"Affected: {_LIST}.{{{{ else }}}}The GPU is allocated to no workload.{{{{ end }}}}"
)
"""Owners of the GPU. Some alerts outlast the series of a node that falls silent, with those of its owners."""
NODE_ALLOCATED = (
    f"{{{{ with printf `{_NODE_HOLDERS}` $labels.cluster $labels.instance | query }}}}"
    f"Workloads on the node: {_LIST}.{{{{ else }}}}No GPU of the node is allocated.{{{{ end }}}}"
)
"""Part of a text that says itself where the node is silent."""
NODE_HIT = unless_silent(NODE_ALLOCATED)


def by_value(label: str, text: Mapping[str, str]) -> str:
    """Return the text of the value that a label has, such as `.Labels.state` in a query or `$labels.action`."""
    branches = "{{ else if ".join(f"eq {label} `{value}` }}}}{words}" for value, words in text.items())
    return f"{{{{ if {branches}{{{{ end }}}}"


def in_words(query: str) -> str:
    """Return the query of states with the labels `title` and `advice`."""
    words = f"max by (state, title, advice) ({STATE_INDEX.record}) ^ 0"
    return f"({query}) * on (state) group_left (title, advice) {words}"


_SECONDS = "gpu_workload_gpu_seconds_total{cluster=%[1]q,workload=%[2]q"
_TOP_STATE = in_words(
    f'topk(1, sum by (state) (rate({_SECONDS},state=~"{regex((*LOST, *POSSIBLY_LOST))}"}}[<window>]))'
    f' / scalar(sum(rate({_SECONDS},state!="unobserved"}}[<window>]))) > 0)'
)


def first_step(rule: str) -> str:
    """Return what the check says to do first about a finding: the alert says the same."""
    return step_of(next(each.action for each in RULES if each.name == rule))


def step_of(action: str) -> str:
    """Return the first part of an action, without its point: what follows a semicolon or a colon is detail."""
    return re.split(r"[;:]", action)[0].removesuffix(".")


_COMPUTES = "It computes: compare its clocks, its links and its part of the work."
_MEANWHILE = f"{{{{ .Labels.title }}}}. {{{{ or .Labels.advice `{_COMPUTES}` }}}}"
_LOST_ON = f"{{{{ .Labels.title }}}}, {percent('.Value')} of its GPU time. Try: {{{{ .Labels.advice }}}}"
_OF_OTHERS = 'state!~"wait_collective|wait_peer|free|unobserved"'


def _own_state(selector: str, *values: str) -> str:
    """Return what a GPU, or the GPUs of a node, that others wait for do meanwhile."""
    query = in_words(f"topk(1, sum by (state) (rate({selector}[<window>])) > 0)")
    return (
        f"{{{{ with printf `{query}` {' '.join(values)} | query }}}}"
        f"{{{{ with first . }}}} Meanwhile mostly: {_MEANWHILE}{{{{ end }}}}{{{{ end }}}}"
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
_NAMED_GPU = "{{ or $gpu.Labels.node $gpu.Labels.instance }} GPU {{ $gpu.Labels.gpu }}"


def _three(expr: str) -> str:
    """The three GPUs with most of it, each once, also while a node has an old and a new exporter."""
    return f"topk(3, topk by (uuid) (1, max by (node, instance, gpu, uuid) ({expr})))"


_STRAGGLERS = (
    f"printf `{_three('rate(gpu_workload_straggler_seconds_total{cluster=%[1]q,workload=%[2]q}[<window>])')}"
    " > <min_wait_ratio>`"
    " $labels.cluster $labels.workload | query"
)
STRAGGLERS = f"{{{{ range $i, $gpu := {_STRAGGLERS} }}}}{{{{ if $i }}}}, {{{{ end }}}}{_NAMED_GPU}{{{{ end }}}}"
STATES_OF_STRAGGLERS = (
    f"{{{{ range $gpu := {_STRAGGLERS} }}}} {_NAMED_GPU}: {percent('$gpu.Value')}"
    f" of the last <window>.{_PORT_OF_GPU}{_STATE_OF_GPU}{{{{ end }}}}"
)
"""The three GPUs that the others wait for longest, and why. Need the parameters `window` and `min_wait_ratio`."""
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
_RANK_WAIT = "avg_over_time(workload_instance:gpu_rank_wait:ratio_rate5m{cluster=%[1]q,workload=%[2]q}[<window>])"
_RANK_STRAGGLES = "rank:gpu_straggling:ratio_rate5m{cluster=%[1]q,workload=%[2]q} > <min_others_wait_ratio>"
_LATE = f"{_RANK_WAIT} < <max_own_wait_ratio> or 0 * ({_RANK_STRAGGLES})"
_LATE_NODES = f"printf `max by (host) ({by_host(_LATE)})` $labels.cluster $labels.workload | query"
_NAMED_NODE = "{{ $node.Labels.host }}"
LATE_NODES = f"{{{{ range $i, $node := {_LATE_NODES} }}}}{{{{ if $i }}}}, {{{{ end }}}}{_NAMED_NODE}{{{{ end }}}}"
STATES_OF_LATE_NODES = f"{{{{ range $node := {_LATE_NODES} }}}} {_NAMED_NODE}: {percent('$node.Value')} of the last" + (
    " <window>."
    + _own_state(
        f"gpu_workload_gpu_seconds_total{{cluster=%[1]q,instance=~%[2]q,workload=%[3]q,{_OF_OTHERS}}}",
        "$labels.cluster",
        "(printf `%s(:[0-9]+)?` $node.Labels.host)",
        "$labels.workload",
    )
    + "{{ end }}"
)
"""Nodes that wait least for others, where no GPU stands out. Need the parameters `window` and `max_own_wait_ratio`."""


TOP_STATE = (
    f"{{{{ with printf `{_TOP_STATE}` $labels.cluster $labels.workload | query }}}}{{{{ with first . }}}}"
    f" Main cause: {_LOST_ON}{{{{ end }}}}{{{{ end }}}}"
)
"""The state that costs the workload most, and what to do about it. Needs the parameter `window`."""
