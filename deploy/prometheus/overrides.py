"""Other values of an alert for some workloads: those of a namespace, an account or a class of work."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from deploy.prometheus.alerts_workload import EXCEPT, told
from deploy.prometheus.declaration import Alert
from deploy.prometheus.recordings_alert import OWNER, WORKLOAD


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Values for the workloads that `where` selects by gpu_workload_info: `account="lab"`. The first fit counts."""

    alert: str
    where: str
    values: Mapping[str, float | str] = field(default_factory=dict[str, float | str])


@dataclass(frozen=True, slots=True)
class Scope:
    """Workloads that one rule of an alert is about: those of `only` (empty: all), without those of `others`."""

    only: str = ""
    others: Sequence[str] = ()

    def narrow(self, expr: str) -> str:
        if self.only:
            expr = f"(\n{expr.rstrip()}\n)\nand on {WORKLOAD} {told(self.only)}"
        if self.others:
            others = " or ".join(map(told, self.others))
            expr = f"(\n{expr.rstrip()}\n)\nunless on {WORKLOAD} ({others})"
        return expr


def overridable(alert: Alert) -> bool:
    """Those about one workload, which say whom they leave alone."""
    return OWNER.record in alert.expr and any(param.name == EXCEPT.name for param in alert.params)


def scopes(alert: Alert, overrides: Collection[Override]) -> Iterator[tuple[Scope, Mapping[str, float | str]]]:
    """One for each rule that the alert becomes, with the values that are not the alert's own.

    Who is selected here is left alone by no default of the alert: `GpuUnderutilized` is not about services, but for
    those that an override names.
    """
    own = [each for each in overrides if each.alert == alert.name]
    wheres = [each.where for each in own]
    yield Scope(others=wheres), {}
    for number, each in enumerate(own):
        yield Scope(each.where, wheres[:number]), {EXCEPT.name: EXCEPT.default, **each.values}
