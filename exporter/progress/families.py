"""Families of reported progress, and counters that survive a restarted program until its workload is forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from exporter.attribution.owner import OWNER_LABELS, Owner
from exporter.core.counters import NO_COUNTS, Counts, count, published
from exporter.core.families import NODE, Block, Family, Sample, Type, Unit, counters, experimental, gauges
from exporter.progress.progress import Progress, Reported


def _owner_samples(value: Callable[[Progress], float | None]) -> Callable[[Reported], Iterable[Sample]]:
    return lambda reported: (
        Sample(number, owner.labels)
        for owner, progress in reported.owners.items()
        if (number := value(progress)) is not None
    )


def _labelled_samples(
    values: Callable[[Progress], Iterable[tuple[str, float]]],
) -> Callable[[Reported], Iterable[Sample]]:
    """Return one sample for each label value of a workload."""
    return lambda reported: (
        Sample(number, (*owner.labels, label))
        for owner, progress in reported.owners.items()
        for label, number in values(progress)
    )


def _counter_family(name: str, help: str) -> Family[Reported]:
    """Return the counter with this name in the protocol."""
    return counters(
        f"gpu_workload_{name}_total",
        help,
        Unit.NONE,
        _owner_samples(lambda progress: progress.counters.get(name)),
        OWNER_LABELS,
        NODE,
    )


def _gauge_family(name: str, help: str, unit: Unit, value: Callable[[Progress], float | None]) -> Family[Reported]:
    return gauges(name, help, unit, _owner_samples(value), OWNER_LABELS, NODE)


def _step_times(progress: Progress) -> Iterable[tuple[str, float]]:
    steps = progress.steps
    return (("min", steps.minimum), ("median", steps.median), ("max", steps.maximum)) if steps else ()


_FAMILIES: tuple[Family[Reported], ...] = (
    _counter_family("samples", "Samples the workload's programs report to have worked off on this node."),
    _counter_family("images", "Images the workload's programs report to have worked off on this node."),
    _counter_family("tokens", "Tokens the workload's programs report to have worked off or made on this node."),
    _counter_family("requests", "Requests the workload's programs report to have answered on this node."),
    _counter_family("steps", "Steps the workload's programs report to have taken; all ranks take them together."),
    _counter_family("epochs", "Epochs the workload's programs report to have ended; all ranks end them together."),
    _counter_family("model_flops", "Floating point operations of the model itself that the programs report to have done."),
    counters("gpu_workload_phase_seconds_total", "Seconds the workload's processes report to have spent in a phase, summed over the processes.", Unit.SECONDS, _labelled_samples(lambda progress: progress.phases.items()), (*OWNER_LABELS, "phase"), NODE),
    _gauge_family("gpu_workload_progress_ratio", "Part of its work the workload reports to have done.", Unit.RATIO, lambda progress: progress.ratio),
    # Without unit: a family with a UNIT line of OpenMetrics must end in it.
    _gauge_family("gpu_workload_expected_seconds_remaining", "Seconds the workload expects to need to its end.", Unit.NONE, lambda progress: progress.remaining),
    _gauge_family("gpu_workload_time_to_target_seconds", "Seconds from the program's start until it reached its target quality, as it reports: MLPerf's time to train.", Unit.SECONDS, lambda progress: progress.time_to_target),
    gauges("gpu_workload_step_duration_seconds", "Seconds a rank needs for a step, without what it waits for others: least, median and most of all ranks.", Unit.SECONDS, _labelled_samples(_step_times), (*OWNER_LABELS, "stat"), NODE),
    gauges("gpu_workload_slowest_rank_step_seconds", "Seconds the slowest rank of this node needs for a step, and which rank it is.", Unit.SECONDS, _labelled_samples(lambda progress: [(progress.steps.slowest, progress.steps.maximum)] if progress.steps else ()), (*OWNER_LABELS, "rank"), NODE),
    counters("gpu_exporter_progress_reports_total", "Reports of programs, by what became of them.", Unit.NONE, lambda r: (Sample(count, (result,)) for result, count in r.results.items()), ("result",), NODE),
)  # fmt: skip

PROGRESS_FAMILIES = tuple(map(experimental, _FAMILIES))


_WIDTH = len(OWNER_LABELS)


class ProgressCounters:
    """Counters of progress, kept until the workload is forgotten."""

    def __init__(self) -> None:
        self._counts: dict[str, Counts] = {}
        self._last: tuple[Reported, Sequence[Block]] | None = None
        """Last reports and their series, while no program reports."""

    def blocks(self, reported: Reported, owners: Iterable[Owner]) -> Sequence[Block]:
        """Return the series of current reports and the counters of past ones, of these `owners`."""
        if self._last is not None and self._last[0] == reported:
            return self._last[1]
        blocks = tuple(self._made(reported, owners))
        of_workloads = (len(labels) >= _WIDTH for counts in self._counts.values() for labels in counts.raws)
        quiet = not reported.owners and not any(of_workloads)
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
