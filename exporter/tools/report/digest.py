"""The digest of a period: accounts, namespaces, users and workloads by the GPU hours they wasted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from exporter.ledger.states import STATES
from exporter.tools.report import advice, progress, promql
from exporter.tools.report.client import Client, NoDataError, NoMetricsError, Sample
from exporter.tools.report.model import Digest, Row


@dataclass(frozen=True, slots=True)
class Group:
    """Owner of a digest: all owners, or one `level` (user, account, namespace) called `name`."""

    level: str = ""
    name: str = ""
    cluster: str = ""

    @property
    def title(self) -> str:
        return f"{self.level} {self.name}" if self.level else "all owners"

    @property
    def scope(self) -> str:
        own = f", {promql.matchers(**{promql.label(self.level): self.name})}" if self.level else ""
        return self.in_cluster + own

    @property
    def in_cluster(self) -> str:
        return promql.matchers(cluster=self.cluster) if self.cluster else promql.EVERYTHING


def digest(client: Client, group: Group, since: float, now: float) -> Digest:
    """Raises ReportError: NoMetricsError where no rule recorded anything, NoDataError where the group had no GPUs."""
    window = f"{math.ceil(since)}s"
    levels = ("workload",) if group.level else (*promql.LEVELS, "workload")
    tables = {level: _level_rows(client, level, group.scope, window, now) for level in levels}
    rows = tables["workload"]
    if not rows:
        raise _no_data_error(client, group, window, now)
    covered = client.instant(promql.covered_seconds(group.in_cluster, window), now)
    compared = () if group.level else client.instant(promql.DIFFERENCE.format(window=window), now)
    level = group.level or promql.TEAM
    if not client.instant(promql.allocated_gpu_hours(level, group.scope, window), now):
        level = "workload"  # the others are recorded every hour
    causes = {s.labels["state"]: s.value for s in client.instant(promql.causes(level, group.scope, window), now)}
    hours = {state: causes[state] for state in STATES if causes.get(state, 0.0) > 0}
    allocated, wasted = (
        [each.value for each in client.instant(query(level, group.scope, window), now)]
        for query in (promql.allocated_gpu_hours, promql.wasted)
    )
    return Digest(
        title=group.title,
        since=now - since,
        until=now,
        covered=min(covered[0].value, since) if covered else None,
        allocated=sum(allocated),
        wasted=sum(wasted) if wasted else None,
        tables={level: table for level, table in tables.items() if table},
        causes=hours,
        advice=advice.of_states(hours, of_whole=sum(allocated)),
        accounting_difference=compared[0].value if compared else None,
    )


def _level_rows(client: Client, level: str, scope: str, window: str, now: float) -> tuple[Row, ...]:
    labels = promql.keys(level).split(", ")

    def by_key(expr: str) -> Mapping[tuple[str, ...], Sample]:
        found = client.instant(expr, now)
        return {tuple(sample.labels.get(label, "") for label in labels): sample for sample in found}

    allocated = by_key(promql.allocated_gpu_hours(level, scope, window))
    ran = by_key(promql.busy_gpu_hours(level, scope, window))
    wasted = by_key(promql.wasted(level, scope, window))
    use = by_key(promql.utilization(level, scope, window))
    owned, by = promql.owned(level, scope), promql.keys(level)
    flops, flops_bound = by_key(progress.reported(owned, by, window)), by_key(progress.bound(owned, by, window))
    price = by_key(promql.price_of_waste(level, scope, window))
    state = by_key(promql.wasted_on(level, scope, window))
    rows = [
        Row(
            labels=dict(zip(labels, key, strict=True)),
            allocated=sample.value,
            wasted=wasted[key].value if key in wasted else None,
            utilization=use[key].value if key in use else None,
            price_wasted=price[key].value if key in price else None,
            used=ran[key].value if key in ran else None,
            model_flops_utilization=flops[key].value if key in flops else None,
            model_flops_utilization_bound=flops_bound[key].value if key in flops_bound else None,
            state=state[key].labels.get("state", "") if key in state else "",
        )
        for key, sample in allocated.items()
        if sample.value > 0
    ]
    return tuple(sorted(rows, key=lambda row: (-(row.wasted or 0.0), -row.allocated, *row.labels.values())))


def _no_data_error(client: Client, group: Group, window: str, now: float) -> Exception:
    if client.instant(promql.covered_seconds(promql.EVERYTHING, window), now):
        return NoDataError(f"no data about {group.title} in the range: unknown here, or no GPU was allocated")
    if client.instant(promql.ANY_METRICS, now):
        if client.has_rule(promql.RULE):
            return NoMetricsError(
                "the recording rules of gpu-exporter are loaded and have recorded nothing in the range: young ones need"
                " a few minutes; if it stays so, the page /rules of this Prometheus has the reason"
            )
        return NoMetricsError(
            "no recording rule of gpu-exporter has recorded anything in the range: load deploy/prometheus/rules;"
            " where a ruler of its own has just loaded them, ask again in a few minutes"
        )
    return NoMetricsError("this Prometheus has no metrics of gpu-exporter")
