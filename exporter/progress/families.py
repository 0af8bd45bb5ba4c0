"""Families of what programs report, and counters that survive a restarted program until its workload is forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from exporter.attribution.owner import OWNER_LABELS, Owner
from exporter.core.counters import NO_COUNTS, Counts, count, published
from exporter.core.families import NODE, Block, Family, Sample, Type, Unit, counters, experimental, gauges
from exporter.progress.progress import Progress, Reported, StepTimes


def _of(value: Callable[[Progress], float | None]) -> Callable[[Reported], Iterable[Sample]]:
    def samples(reported: Reported) -> Iterable[Sample]:
        for owner, progress in reported.owners.items():
            number = value(progress)
            if number is not None:
                yield Sample(number, owner.labels)

    return samples


def _counter(name: str, help: str) -> Family[Reported]:
    """The counter that the protocol calls `name`."""
    return counters(
        f"gpu_workload_{name}_total",
        help,
        Unit.NONE,
        _of(lambda progress: progress.counters.get(name)),
        OWNER_LABELS,
        NODE,
    )


def _gauge(name: str, help: str, unit: Unit, value: Callable[[Progress], float | None]) -> Family[Reported]:
    return gauges(name, help, unit, _of(value), OWNER_LABELS, NODE)


def _phases(reported: Reported) -> Iterable[Sample]:
    for owner, progress in reported.owners.items():
        for phase, seconds in progress.phases.items():
            yield Sample(seconds, (*owner.labels, phase))


def _steps(reported: Reported) -> Iterable[Sample]:
    for owner, steps in _with_steps(reported):
        for stat, seconds in (("min", steps.minimum), ("median", steps.median), ("max", steps.maximum)):
            yield Sample(seconds, (*owner, stat))


def _with_steps(reported: Reported) -> Iterable[tuple[tuple[str, ...], StepTimes]]:
    return ((owner.labels, each.steps) for owner, each in reported.owners.items() if each.steps is not None)


_FAMILIES: tuple[Family[Reported], ...] = (
    _counter("samples", "Samples the workload's programs report to have worked off on this node."),
    _counter("images", "Images the workload's programs report to have worked off on this node."),
    _counter("tokens", "Tokens the workload's programs report to have worked off or made on this node."),
    _counter("requests", "Requests the workload's programs report to have answered on this node."),
    _counter("steps", "Steps the workload's programs report to have taken; all ranks take them together."),
    _counter("epochs", "Epochs the workload's programs report to have ended; all ranks end them together."),
    _counter("model_flops", "Floating point operations of the model itself that the programs report to have done."),
    counters("gpu_workload_phase_seconds_total", "Seconds the workload's processes report to have spent in a phase, summed over the processes.", Unit.SECONDS, _phases, (*OWNER_LABELS, "phase"), NODE),
    _gauge("gpu_workload_progress_ratio", "Part of its work the workload reports to have done.", Unit.RATIO, lambda progress: progress.ratio),
    # Without unit: a family with a UNIT line of OpenMetrics must end in it.
    _gauge("gpu_workload_expected_seconds_remaining", "Seconds the workload expects to need to its end.", Unit.NONE, lambda progress: progress.remaining),
    _gauge("gpu_workload_time_to_target_seconds", "Seconds from the program's start until it reached its target quality, as it reports: MLPerf's time to train.", Unit.SECONDS, lambda progress: progress.time_to_target),
    gauges("gpu_workload_step_duration_seconds", "Seconds a rank needs for a step, without what it waits for others: least, median and most of all ranks.", Unit.SECONDS, _steps, (*OWNER_LABELS, "stat"), NODE),
    gauges("gpu_workload_slowest_rank_step_seconds", "Seconds the slowest rank of this node needs for a step, and which rank it is.", Unit.SECONDS, lambda r: (Sample(steps.maximum, (*owner, steps.slowest)) for owner, steps in _with_steps(r)), (*OWNER_LABELS, "rank"), NODE),
    counters("gpu_exporter_progress_reports_total", "Reports of programs, by what became of them.", Unit.NONE, lambda r: (Sample(count, (result,)) for result, count in r.results.items()), ("result",), NODE),
)  # fmt: skip

PROGRESS_FAMILIES = tuple(map(experimental, _FAMILIES))


_WIDTH = len(OWNER_LABELS)


class ProgressCounters:
    def __init__(self) -> None:
        self._counts: dict[str, Counts] = {}
        self._last: tuple[Reported, Sequence[Block]] | None = None
        """What was reported where nobody reports, and the series of that."""

    def blocks(self, reported: Reported, owners: Iterable[Owner]) -> Sequence[Block]:
        """The series of what is reported now, and the counters of what was; only of these `owners`."""
        if self._last is not None and self._last[0] == reported:
            return self._last[1]
        blocks = tuple(self._made(reported, owners))
        quiet = not reported.owners and not any(_owned(counts) for counts in self._counts.values())
        self._last = (reported, blocks) if quiet else None
        return blocks

    def _made(self, reported: Reported, owners: Iterable[Owner]) -> Iterator[Block]:
        known = {owner.labels for owner in owners}
        for family in PROGRESS_FAMILIES:
            if family.type is Type.COUNTER:
                before = self._counts.get(family.name, NO_COUNTS)
                kept = before.only({each for each in before.raws if each[:_WIDTH] in known or len(each) < _WIDTH})
                counts = self._counts[family.name] = count(kept, family.by_labels(reported))
                columns = published(counts)
            else:
                columns = family.columns(reported)
            yield Block(family, (), columns)


def _owned(counts: Counts) -> bool:
    """Whether a workload's counter is among them."""
    return any(len(labels) >= _WIDTH for labels in counts.raws)
