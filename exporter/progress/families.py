"""The families of what programs report of themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from exporter.attribution.owner import OWNER_LABELS, Owner
from exporter.metrics.family import Family, Sample, Type, Unit
from exporter.progress.report import Progress

Reported = Mapping[Owner, Progress]


def _of(value: Callable[[Progress], float | None]) -> Callable[[Reported], Iterable[Sample]]:
    def samples(reported: Reported) -> Iterable[Sample]:
        for owner, progress in reported.items():
            number = value(progress)
            if number is not None:
                yield Sample(number, owner.labels)

    return samples


def _family(
    name: str, help: str, type: Type, unit: Unit, value: Callable[[Progress], float | None]
) -> Family[Reported]:
    return Family(name=name, help=help, type=type, unit=unit, samples=_of(value), labels=OWNER_LABELS, prefix=())


PROGRESS_FAMILIES: tuple[Family[Reported], ...] = (
    _family(
        "gpu_workload_samples_total",
        "Samples or tokens the workload's programs report to have worked off on this node.",
        Type.COUNTER,
        Unit.NONE,
        lambda progress: progress.samples,
    ),
    _family(
        "gpu_workload_steps_total",
        "Steps the workload's programs report to have taken.",
        Type.COUNTER,
        Unit.NONE,
        lambda progress: progress.steps,
    ),
    _family(
        "gpu_workload_progress_ratio",
        "Part of its work the workload reports to have done.",
        Type.GAUGE,
        Unit.RATIO,
        lambda progress: progress.ratio,
    ),
)
