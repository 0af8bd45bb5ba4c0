"""Prometheus queries, and the selectors and expressions that many panels need."""

from __future__ import annotations

from collections.abc import Callable

from grafana_foundation_sdk.builders import prometheus
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards.parts import states
from dashboards.parts.once import once
from deploy.prometheus.render import MEANINGS
from exporter.tools.report import definitions
from exporter.tools.report.definitions import LOST, POSSIBLY_LOST, Amount, Ledger, Totals, among

SOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")

CLUSTER = 'cluster=~"$cluster"'
NODE = 'cluster=~"$cluster", instance=~"$instance"'
# A variable of one value is compared and not matched: Grafana escapes it for no regex, and [2001:db8::7]:9836 is one.
ONE_NODE = 'cluster=~"$cluster", instance="$instance"'
DEVICE = 'cluster=~"$cluster", instance="$instance", gpu="$gpu"'
POD = 'cluster=~"$cluster", kind!="slurm", workload_namespace=~"$namespace", workload=~"$workload"'
SLURM = 'cluster=~"$cluster", kind="slurm", account=~"$account", user=~"$user", workload=~"$workload"'

POD_SHOWN, SLURM_SHOWN = (scope.replace("$workload", "$shown") for scope in (POD, SLURM))
"""The same, of the workloads that `variable.shown` chooses: a graph of all of a cluster's is a graph of none."""

THERMAL = 'reason=~"sw_thermal|hw_thermal|thermal"'
ALERTS = "runbook=~`gpu.+`, alertstate=`firing`"
"""Ours: each names its runbook in a label."""
GPU_HOURS = "suffix:GPU h"
"""Not the unit for hours, which turns 48 of them into two days."""
KWH = "suffix:kWh"
JOULES_PER_KWH = 3.6e6
RANGE = "$__range"
NOTABLE = 0.1
"""Fraction of its time from which on a loss is shown before what took more."""


def over_time(expr: str, legend: str = "") -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(once(expr)).legend_format(legend).datasource(SOURCE).range()


def now(expr: str, legend: str = "") -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(once(expr)).legend_format(legend).datasource(SOURCE).instant()


def rows(expr: str) -> prometheus.Dataquery:
    return now(expr).format(PromQueryFormat.TABLE)


def with_text(label: str) -> str:
    """PromQL to put behind alerts: it adds `title` or `meaning` as the rules record it, the name where they do not."""
    known = f"topk by (alertname) (1, {MEANINGS.record} @ end())"
    names = f'label_replace(max by (alertname) (ALERTS{{{ALERTS}, {CLUSTER}}}), "{label}", "$1", "alertname", "(.+)")'
    return f"* on (alertname) group_left ({label}) ({known} or on (alertname) {names}) ^ 0"


def rate(selector: str) -> str:
    return f"rate({selector}[$__rate_interval])"


def hours(recorded: str) -> str:
    """GPU hours in the dashboard's range, from a recorded rate that is evaluated once a minute."""
    return definitions.hours(recorded, RANGE)


RANGE_HOURS = definitions.hours_in(RANGE)


def owners(level: str, scope: str, by: str, amount: Amount = RANGE_HOURS) -> Totals:
    """Return the allocation and use of owners, recorded at one level."""
    return Totals(level, scope, by, amount)


def owner_states(level: str, scope: str, by: str, amount: Amount = RANGE_HOURS) -> Ledger:
    """The recorded ledger of owners, at one level."""
    return Ledger(f"{level}_state:gpu_workload_gpu_seconds:rate5m", scope, by, amount)


def devices(level: str, scope: str, by: str, amount: Amount = RANGE_HOURS) -> Ledger:
    """The recorded ledger of GPUs, at one level."""
    return Ledger(f"{level}_state:gpu_state_seconds:rate5m", scope, by, amount)


def gpu_busy(scope: str, by: str) -> str:
    """Return the busy fraction of GPUs by their own ledgers: an unreachable GPU has none, instead of 0."""
    return definitions.BUSY_RATIO.promql(Ledger("gpu_state_seconds_total", scope, by, rate))


def counted(counter: str, above_zero: str = "") -> str:
    """Return the increase in the range of a counter that is born with its first event, which increase() misses.

    `above_zero` names the labels of a counter of which only the series that are not 0 matter: of a fleet they are few.
    """

    def of(series: str) -> str:
        return f"max by ({above_zero}) ({series} > 0)" if above_zero else series

    return f"(({of(counter)} - {of(f'{counter} offset {RANGE}')}) >= 0 or {of(counter)})"


def some(expr: str) -> str:
    """Return the values that are not 0: a legend names what there was."""
    return f"({expr}) > 0"


def times(recorded: str) -> str:
    """Return how often something happened in the range, from a recorded rate that is evaluated once a minute."""
    return f"round(sum_over_time({recorded}[{RANGE}]) * {definitions.RULE_SECONDS})"


def latest(moments: str) -> str:
    """Return the last value in the range of series whose value is a moment, also of series that have ended.

    A read every five minutes meets all that lived as long as a scrape, and costs a fraction of reading every scrape.
    """
    return f"(max_over_time({moments}[$__range:5m]) or {moments})"


def in_range(moments: str) -> str:
    """Those whose last moment lies in the dashboard's range; as seconds ago."""
    return f"(time() - {latest(moments)} < $__range_s)"


def main_states(seconds: Callable[[str], str], by: str, whole: str = "") -> str:
    """Return for each `by` and state how much it is worth reporting.

    The largest loss, a possible one too, that took a tenth of the time or more comes first, then the state that took
    most. `seconds` gets matchers to add to its selector. `whole` is all time of each `by`; without it, `by` names one
    GPU, whose states sum up to 1.
    """

    def states_of(more: str) -> str:
        return f"sum by ({by}, state) ({seconds(more)})" if whole else seconds(more)

    notable = f"on ({by}) group_left () ({NOTABLE} * {whole} > 0)" if whole else f"{NOTABLE}"
    lost = f"{states_of(', ' + among((*LOST, *POSSIBLY_LOST)))} >= {notable}"
    return f"(1e6 + ({lost})) or ({states_of('')} > 0)"


def notable_state(seconds: Callable[[str], str], by: str, only: str = "", whole: str = "") -> str:
    """Return PromQL for the state to report of each `by`, as its place in the table of states: for a state timeline.

    `only` chooses among the rows.
    """
    return _code(f"(topk by ({by}) (1, {main_states(seconds, by, whole)}){only})", by)


def _code(top: str, by: str) -> str:
    return f"max by ({by}) (0 * {top} + on (state) group_left () ({states.codes()}))"


def known(scope: str, by: str = "uuid") -> str:
    """1 for each GPU that answers, 0 for one that does not: also one that was lost before its exporter started.

    The driver has never shown it to this exporter: only the fault shows it. By its index, `gpu`, the one counts that
    the driver gives the same index, if there is one.
    """
    lost = f'gpu_fault_timestamp_seconds{{{scope}, fault="lost"}}'
    return f"(gpu_up{{{scope}}} or on (cluster, instance, {by}) 0 * {lost})"


def answering(expr: str, scope: str, gpu: str = "uuid") -> str:
    """Leave out lost GPUs: their counters stand still, which is not 0.

    `gpu` is the label that names the GPU; on series of a MIG instance `uuid` is its own.
    """
    return f"{expr} and on (cluster, instance, {gpu}) (gpu_up{{{scope}}} == 1)"
