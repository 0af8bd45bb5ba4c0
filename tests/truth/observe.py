"""What an exporter that reads once a second sees of the work, and the ledger that it makes of that."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from exporter.attribution.owner import Owner, Target
from exporter.core.clock import UnixTime
from exporter.core.units import BytesPerSecond, Fraction
from exporter.host.model import HostSignals, ProcessSignals
from exporter.ledger.account import Allocation, Ledger, LedgerInput, Reading
from exporter.ledger.ledger import advance_ledger
from exporter.ledger.states import STATES
from exporter.ledger.states.state import Signals
from tests.truth.signatures import UNITS, Levels, Signature
from tests.truth.work import JOB, PROGRAMS, Program, Segment, Work

_CLOCK = 1.98e9
_PID, _LAUNCHER, _PIDS_OF_A_RANK = 100, 50, 10


class _Timeline:
    """One GPU's segments, with the integral of each unit up to any moment."""

    def __init__(self, segments: Sequence[Segment], levels: Levels) -> None:
        self.segments = segments
        self.ends = list(accumulate([each.seconds for each in segments]))
        self._rows = [levels[each.gpu] for each in segments]
        self._sums = [(0.0,) * len(UNITS)]
        for each, row in zip(segments, self._rows, strict=True):
            last = self._sums[-1]
            self._sums.append(tuple(total + each.seconds * level for total, level in zip(last, row, strict=True)))

    def at(self, moment: float) -> int:
        return min(bisect_right(self.ends, moment), len(self.segments) - 1)

    def integral(self, moment: float) -> tuple[float, ...]:
        index = self.at(moment)
        begin = self.ends[index] - self.segments[index].seconds
        row = self._rows[index]
        return tuple(total + (moment - begin) * level for total, level in zip(self._sums[index], row, strict=True))

    def parts(self, begin: float, end: float) -> Iterator[tuple[Segment, float]]:
        for index in range(self.at(begin), len(self.segments)):
            segment = self.segments[index]
            start = self.ends[index] - segment.seconds
            if start >= end:
                return
            yield segment, min(end, self.ends[index]) - max(begin, start)

    def sampled(self, moment: float, span: float, unit: int) -> float:
        """Return the integral by the driver's samples; the last one's level stands for the time since."""
        last = moment - moment % span
        now, before = self.integral(last)[unit], self.integral(max(0.0, last - span))[unit]
        return now + (moment - last) * (now - before) / span


@dataclass
class _Bytes:
    """What one process moved lately."""

    read: float = 0.0
    written: float = 0.0

    def add(self, read: float, written: float, seconds: float) -> None:
        weight = min(1.0, seconds / 30.0)
        self.read += weight * (read / seconds - self.read)
        self.written += weight * (written / seconds - self.written)


@dataclass(frozen=True)
class Found:
    """Seconds after the warm-up by GPU: the truth, and what the ledger says."""

    work: Work
    seconds: float
    truth: Sequence[Mapping[str, float]]
    states: Sequence[Mapping[str, float]]
    straggling: Sequence[float]
    ledger: Ledger = field(repr=False)


def observe(work: Work, signature: Signature, rng: random.Random) -> Found:
    """Run the real ledger over the work as this kind of GPU shows it."""
    kinds = [signature.levels(rng, work.kind) for _ in range(work.ranks)]
    if not work.linked:
        kinds = [{gpu: (*row[:6], 0.0, row[7]) for gpu, row in each.items()} for each in kinds]
    lines = [_Timeline(each, levels) for each, levels in zip(work.timelines, kinds, strict=True)]
    moved = [_Bytes() for _ in lines]
    ledger, before, clock, counted = Ledger(), None, 0.0, 0.0
    truth = [dict[str, float]() for _ in lines]
    while clock < work.seconds:
        end = clock + rng.uniform(0.98, 1.02)
        parts = [list(line.parts(clock, end)) for line in lines]
        if before is None and clock >= work.warm_up:
            before = ledger
        readings = [_reading(work, signature, line, index, (clock, end), rng) for index, line in enumerate(lines)]
        hosts = _hosts(work, parts, moved, end - clock)
        current = LedgerInput(
            time=UnixTime(end),
            seconds=end - clock,
            readings=(*_parent(work, readings), *readings),
            hosts=hosts,
            work=dict.fromkeys(hosts, work.work_class) if work.work_class else {},
        )
        ledger = advance_ledger(ledger, current)
        if before is not None:
            counted += end - clock
            for sums, each in zip(truth, parts, strict=True):
                for segment, seconds in each:
                    sums[segment.state] = sums.get(segment.state, 0.0) + seconds * segment.clock
                    lost = seconds * (1.0 - segment.clock)
                    if lost:
                        sums["throttled_thermal"] = sums.get("throttled_thermal", 0.0) + lost
        clock = end
    return _found(work, counted, truth, before or Ledger(), ledger)


def _reading(
    work: Work, signature: Signature, line: _Timeline, index: int, span: tuple[float, float], rng: random.Random
) -> Reading:
    begin, end = span
    seconds = end - begin
    means = [(new - old) / seconds for old, new in zip(line.integral(begin), line.integral(end), strict=True)]
    for unit in (UNITS.index("busy"), UNITS.index("memory")):
        sampled = [line.sampled(moment, signature.sample_span, unit) for moment in span]
        means[unit] = min(1.0, max(0.0, (sampled[1] - sampled[0]) / seconds))
    busy = means[0]
    _, sm, tensor, vector, dram, memory, link, power = [
        busy, *(min(1.0, max(0.0, level * rng.gauss(1.0, signature.noise))) for level in means[1:]),
    ]  # fmt: skip
    parts = list(line.parts(begin, end))
    throttled = sum([part for segment, part in parts if segment.clock < 1.0]) / seconds
    clock = parts[-1][0].clock
    signals = Signals(
        busy=busy,
        memory_activity=None if work.instances else memory,
        power_of_limit=None if work.instances else power,
        sm_active=sm if work.gpm else None,
        tensor_active=tensor if work.gpm else None,
        vector_active=vector if work.gpm else None,
        dram_active=dram if work.gpm else None,
        link_activity=link if work.gpm and not work.instances else None,
        throttled_thermal=throttled,
        sm_clock=clock * _CLOCK,
        sm_clock_throttled=clock * _CLOCK if clock < 1.0 else None,
        sm_clock_max=_CLOCK,
    )
    ran = [sum([part for segment, part in parts if segment.runner == at]) for at in range(len(work.slices))]
    allocations = [
        Allocation(each.owner, Fraction(each.share), (_pid(index, each.pid),), used if len(ran) > 1 else None)
        for each, used in zip(work.slices, ran, strict=True)
    ]
    return Reading(_target(work, index), signals, tuple(allocations))


def _target(work: Work, index: int) -> Target:
    if work.instances:
        return Target(f"MIG-{index}", 0, "", parent_uuid="GPU-0", share=Fraction(1 / work.ranks), gpu_instance=index)
    return Target(f"GPU-{index}", index, "")


def _parent(work: Work, readings: Sequence[Reading]) -> Sequence[Reading]:
    """Return the GPU whose instances were read."""
    if not work.instances:
        return ()
    owned = [allocation for reading in readings for allocation in reading.allocations]
    return [Reading(Target("GPU-0", 0, ""), Signals(busy=1.0, power_of_limit=0.6), tuple(owned[:1]))]


def _pid(rank: int, pid: int) -> int:
    return _PID + _PIDS_OF_A_RANK * rank + pid


def _hosts(
    work: Work, parts: Sequence[Sequence[tuple[Segment, float]]], moved: Sequence[_Bytes], seconds: float
) -> Mapping[Owner, HostSignals]:
    processes: dict[Owner, dict[int, ProcessSignals]] = {}
    stalled, network = 0.0, 0.0
    for rank, (each, bytes_moved) in enumerate(zip(parts, moved, strict=True)):
        programs = [(PROGRAMS[segment.program], part) for segment, part in each]
        for slice_ in work.slices:
            signals = _process(programs, bytes_moved, seconds)
            processes.setdefault(slice_.owner, {})[_pid(rank, slice_.pid)] = signals
        stalled = max(stalled, sum([program.blocked * part for program, part in programs]) / seconds)
        network += sum([program.network * part for program, part in programs]) / seconds
    return {
        owner: HostSignals(
            cpu_pressure=0.0,
            io_pressure=stalled,
            io_full_pressure=0.0,
            cpu_of_limit=0.3,
            network_bytes_per_second=BytesPerSecond(network),
            processes=each,
            launchers={pid: _LAUNCHER for pid in each if owner == JOB} if work.launcher else {},
        )
        for owner, each in processes.items()
    }


def _process(programs: Sequence[tuple[Program, float]], moved: _Bytes, seconds: float) -> ProcessSignals:
    """One look at the end of the cycle finds where it sits; CPU and bytes are counted all the time."""
    thread = sum([program.thread * part for program, part in programs]) / seconds
    polling = sum([program.thread * part for program, part in programs if program.polling]) / seconds
    read = sum([program.read * part for program, part in programs])
    written = sum([program.written * part for program, part in programs])
    moved.add(read, written, seconds)
    last = programs[-1][0]
    return ProcessSignals(
        hottest_thread=thread,
        blocked=last.blocked,
        receiving=last.receiving,
        from_peer=last.from_peer,
        polling=polling >= 0.5 * thread,
        read_bytes_per_second=BytesPerSecond(moved.read),
        written_bytes_per_second=BytesPerSecond(moved.written),
        reading_bytes_per_second=BytesPerSecond(read / seconds),
        writing_bytes_per_second=BytesPerSecond(written / seconds),
        main_thread=thread,
        main_writing_bytes_per_second=BytesPerSecond(written / seconds),
        cpu=thread,
    )


def _found(work: Work, seconds: float, truth: Sequence[Mapping[str, float]], before: Ledger, after: Ledger) -> Found:
    states: list[Mapping[str, float]] = []
    straggling: list[float] = []
    for rank in range(work.ranks):
        uuid = _target(work, rank).uuid
        old = before.targets[uuid].seconds if uuid in before.targets else (0.0,) * len(STATES)
        rows = zip(STATES, old, after.targets[uuid].seconds, strict=True)
        states.append({state: now - then for state, then, now in rows if now - then > 0})
        straggling.append(_straggled(after, uuid) - _straggled(before, uuid))
    return Found(work, seconds, truth, states, straggling, after)


def _straggled(ledger: Ledger, uuid: str) -> float:
    pasts = [entry.past[uuid] for entry in ledger.owners.values() if uuid in entry.past]
    return sum([past.straggling_seconds for past in pasts])
