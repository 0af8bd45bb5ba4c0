"""The real exporter beside real programs: whether the ledger names the right cause, and what it costs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from exporter.ledger.states import STATES
from tests.exporter_process import Metrics, Running, exporter
from tests.hardware.bench import Bench
from tests.hardware.figures import Paired, paired, rate
from tests.hardware.verdict import DIFFERS, OK, UNMEASURED
from tests.stack import poll

_OPTIONS = ("--metrics.hide=", "--attribution.kubernetes=off", "--attribution.slurm=off")
_PAIRS = 5
_UNNOTICED = 0.3
"""Percent of the load's throughput."""
_TIMEOUT_SECONDS = 5.0
"""Seconds for a scrape."""

EXPECTED: Mapping[str, tuple[str, ...]] = {
    "idle": ("free",),
    # Before the others: all are the same user's python3, one owner, which must not have computed yet.
    "held": ("allocated_unused",),
    "dense": ("computing",),
    "copy": ("memory_bound",),
    # A thread that launches kernel after kernel is itself too slow for them: between two the GPU waits for that CPU.
    "tiny": ("low_sm_activity", "wait_cpu"),
    "input": ("wait_cpu",),
    "pcie": ("communication",),
    # A CPU moves what is not pinned; the driver counts the parts of each copy that its engine makes as use of the GPU.
    "pageable": ("wait_cpu", "communication"),
    "checkpoint": ("wait_storage", "wait_checkpoint", "wait_cpu"),
    "compiling": ("wait_cpu",),
    "polling": ("wait_requests", "wait_other"),
}
"""States that are right for a load; where there are several, it is their sum that counts."""
_FIRST: Mapping[str, float] = {"held": 15.0}
"""Seconds until the expected state can be named: a GPU is unused after ten without a kernel."""
_ENOUGH = 0.8
"""Of the time, that the expected state must have; for a mixed load of the kind of time it is about."""
_WAITING = frozenset(state for state in STATES if state.startswith("wait_") or state == "allocated_unused")


def diagnosis(bench: Bench) -> None:
    """Seconds by state under each load, in `programs`."""
    rows: list[Mapping[str, Any]] = []
    with exporter(bench.folder, *_OPTIONS) as running:
        for kind, wanted in EXPECTED.items():
            if kind == "idle":
                seconds = _states(bench, running)
            else:
                with bench.load(kind) as load:
                    bench.rest(_FIRST.get(kind, 0.0))
                    seconds = _states(bench, running) if load else None
            rows.append(judged(kind, wanted, seconds))
            bench.keep("programs", rows)
        last = running.metrics(_TIMEOUT_SECONDS)
        bench.keep("diagnosable", _diagnosable(bench, last))
        bench.keep("collectors", collectors(last))


def judged(kind: str, wanted: Sequence[str], seconds: Mapping[str, float] | None) -> dict[str, Any]:
    """A waiting state is judged among the waiting time: the program also works. None: not measured."""
    expected = " or ".join(wanted)
    if seconds is None or not any(seconds.values()):
        return {"program": kind, "expected": expected, "share": None, "outcome": UNMEASURED, "shares": {}}
    whole = sum(seconds.values())
    waited = sum(found for state, found in seconds.items() if state in _WAITING)
    of = waited if _WAITING.issuperset(wanted) else whole
    share = sum(seconds.get(state, 0.0) for state in wanted) / of if of else 0.0
    shares = {state: found / whole for state, found in seconds.items() if found} if whole else {}
    outcome = OK if share >= _ENOUGH else DIFFERS
    return {"program": kind, "expected": expected, "share": share, "outcome": outcome, "shares": shares}


def cost(bench: Bench) -> None:
    """The exporter's CPU on a loaded GPU, and the load's own rate of work without and with it, in turns."""
    turn, pairs = bench.seconds(10.0), []
    used: list[Mapping[str, float | None]] = []
    with bench.load("dense") as load:
        for number in range(max(1, round(_PAIRS * bench.scale))):
            rates: dict[str, float | None] = {}
            # Which comes first changes from pair to pair, so that a drift of clocks falls on both alike.
            for state in ("without", "with") if number % 2 else ("with", "without"):
                if state == "without":
                    begin, end = _turn(turn)
                else:
                    with exporter(bench.folder, *_OPTIONS) as running:
                        bench.rest(2.0)
                        before = running.metrics(_TIMEOUT_SECONDS)
                        begin, end = _turn(turn)
                        used.append(_cpu(before, running.metrics(_TIMEOUT_SECONDS), end - begin))
                bench.rest(1.0)
                rates[state] = rate(load.history("steps"), begin, end) if load else None
            pairs.append(rates)
            bench.keep("pairs", pairs)
            bench.keep("exporter", used)
    known = [(pair["without"], pair["with"]) for pair in pairs]
    found = paired([(a, b) for a, b in known if a is not None and b is not None])
    bench.keep("effect", judged_effect(found))
    cpu = [row["cpu_percent"] for row in used if row["cpu_percent"] is not None]
    bench.keep("cpu_percent", statistics.median(cpu) if cpu else None)


def judged_effect(found: Paired | None) -> dict[str, Any]:
    """An effect within its own scatter, or below what anybody would notice, is none."""
    if found is None:
        return {"outcome": UNMEASURED}
    small = not found.measurable or abs(found.mean) <= _UNNOTICED
    return {"outcome": OK if small else DIFFERS, **asdict(found), "measurable": found.measurable}


def _turn(seconds: float) -> tuple[float, float]:
    begin = time.time()
    time.sleep(seconds)
    return begin, time.time()


def _cpu(before: Metrics, after: Metrics, seconds: float) -> dict[str, float | None]:
    first, last = before.one("process_cpu_seconds_total"), after.one("process_cpu_seconds_total")
    return {
        "cpu_percent": None if first is None or last is None else (last - first) / seconds * 100,
        "resident_bytes": after.one("process_resident_memory_bytes"),
        "cycle_seconds": after.one("gpu_exporter_sampling_cycle_duration_seconds"),
    }


def collectors(metrics: Metrics) -> list[dict[str, Any]]:
    """How long each collector's last read took, and whether it could read."""
    name = "gpu_scrape_collector_success"
    names = sorted(dict(labels)["collector"] for found, labels in metrics.values if found == name)
    return [
        {"collector": each, "success": metrics.one(name, collector=each),
         "seconds": metrics.one("gpu_scrape_collector_duration_seconds", collector=each)}
        for each in names
    ]  # fmt: skip


def _states(bench: Bench, running: Running) -> dict[str, float]:
    uuid = bench.device.uuid
    bench.rest(5.0)  # until the processes have been listed anew
    before = running.metrics(_TIMEOUT_SECONDS)
    bench.rest(15.0)
    after = poll("a cycle to end", lambda: _later(running, before), 30)
    name = "gpu_state_seconds_total"
    return {
        state: (after.one(name, uuid=uuid, state=state) or 0.0) - (before.one(name, uuid=uuid, state=state) or 0.0)
        for state in STATES
    }


def _later(running: Running, before: Metrics) -> Metrics | None:
    """A scrape with more cycles than the one before."""
    name = "gpu_exporter_sampling_cycles_total"
    now = running.metrics(_TIMEOUT_SECONDS)
    return now if (now.one(name) or 0.0) > (before.one(name) or 0.0) else None


def _diagnosable(bench: Bench, metrics: Metrics) -> dict[str, float | None]:
    uuid = bench.device.uuid
    return {state: metrics.one("gpu_exporter_state_detectable", uuid=uuid, state=state) for state in STATES}
