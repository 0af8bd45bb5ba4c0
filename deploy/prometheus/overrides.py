"""Other values of an alert for some workloads: those of a namespace, an account or a class of work."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from deploy.prometheus.alerts_workload import EXCEPT, told
from deploy.prometheus.declaration import Alert
from deploy.prometheus.recordings_alert import OWNER, WORKLOAD


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Values for the workloads that `where` selects by gpu_workload_info: `account="lab"`. The first fit counts.

    An alert about all workloads of an owner takes them for owners of such a workload.
    """

    alert: str
    where: str
    values: Mapping[str, float | str] = field(default_factory=dict[str, float | str])


@dataclass(frozen=True, slots=True)
class Scope:
    """Workloads or owners that one rule is about: those of `only` (empty: all), without those of `others`."""

    on: str = WORKLOAD
    only: str = ""
    others: Sequence[str] = ()

    def narrow(self, expr: str) -> str:
        if self.only:
            expr = f"(\n{expr.rstrip()}\n)\nand on {self.on} {self.only}"
        if self.others:
            expr = f"(\n{expr.rstrip()}\n)\nunless on {self.on} ({' or '.join(self.others)})"
        return expr


def overridable(alert: Alert) -> bool:
    """Those to owners, which say whom they leave alone."""
    return any(param.name == EXCEPT.name for param in alert.params)


_LETTER = "(cluster, user, workload_namespace)"
"""Labels of an alert about all workloads of an owner: a user, or the namespace of work without one."""


def _owners(where: str) -> str:
    """Return the owners of workloads that `where` selected within a day: a chain of jobs has pauses."""
    users = f'max by (cluster, user) (last_over_time(gpu_workload_info{{{where},user!=""}}[1d]))'
    others = f'{where},user="",workload_namespace!=""'
    return f"({users} or max by (cluster, workload_namespace) (last_over_time(gpu_workload_info{{{others}}}[1d])))"


def scopes(alert: Alert, overrides: Collection[Override]) -> Iterator[tuple[Scope, Mapping[str, float | str]]]:
    """One for each rule that the alert becomes, with the values that are not the alert's own.

    Who is selected here is left alone by no default of the alert: `GpuUnderutilized` is not about services, but for
    those that an override names.
    """
    own = [each for each in overrides if each.alert == alert.name]
    on, select = (WORKLOAD, told) if OWNER.record in alert.expr else (_LETTER, _owners)
    selected = [select(each.where) for each in own]
    yield Scope(on, others=selected), {}
    for number, each in enumerate(own):
        yield Scope(on, selected[number], selected[:number]), {EXCEPT.name: EXCEPT.default, **each.values}
