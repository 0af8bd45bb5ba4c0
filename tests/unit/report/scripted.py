"""A Prometheus that answers from a table, and notes what it was asked."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from exporter.tools.report.client import Access, Client, Line, Sample

_PAIR = re.compile(r'(\w+)="([^"]*)"')


def samples(text: str) -> Sequence[Sample]:
    """`{node="n1", gpu="0"} 5`, one a line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [Sample(dict(_PAIR.findall(line)), float(line.rpartition(" ")[2])) for line in lines]


class Scripted(Client):
    """`answers` by a pattern of the expression, the first that is found in it; nothing for what has none.

    `rules` are the recording rules that it says it has.
    `held` is when GPUs were held, seconds of the clock of the questions; None for never. So is `counted`, of counters.
    """

    def __init__(
        self,
        answers: Mapping[str, str],
        allocated: tuple[float, float] | None = None,
        counted: tuple[float, float] | None = None,
        rules: Collection[str] = (),
    ) -> None:
        super().__init__(Access("http://127.0.0.1:1"))
        self._answers = answers
        self._times = {"gpu_workload_allocated_gpus{": allocated, "gpu_workload_gpu_seconds_total{": counted}
        self._rules = rules
        self.asked: list[str] = []

    def instant(self, expr: str, time: float) -> Sequence[Sample]:
        self.asked.append(f"at {time:.3f}: {expr}")
        return next((samples(answer) for pattern, answer in self._answers.items() if re.search(pattern, expr)), [])

    def has_rule(self, name: str) -> bool:
        return name in self._rules

    def over_time(self, expr: str, start: float, end: float, step: float) -> Sequence[Line]:
        self.asked.append(f"from {start:.3f} to {end:.3f} every {step:.3f}: {expr}")
        there = next((times for part, times in self._times.items() if part in expr), None)
        if there is None:
            return []
        times = [start + step * index for index in range(int((end - start) / step) + 1)]
        points = tuple((time, 1.0) for time in times if there[0] <= time < there[1] + step)
        return [Line({}, points)] if points else []
