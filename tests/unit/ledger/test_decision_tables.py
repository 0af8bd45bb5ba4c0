"""The tables of the field in docs/diagnosis.md: a GPU is booked as each state a row names, and so advised."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.attribution.owner import Target
from exporter.host.model import HostSignals, ProcessSignals
from exporter.ledger.account import Allocation, Ledger, LedgerInput, Reading
from exporter.ledger.ledger import advance_ledger
from exporter.ledger.states import BY_STATE
from exporter.ledger.states.state import Signals
from exporter.tools.report.advice import of_job
from exporter.tools.report.model import DeviceUse
from tests.unit.ledger.test_accusations import JOB, NOTHING, RECEIVES, SLEEPS, SPINS, run, shares
from tests.unit.ledger.test_signatures import CALM, HOPPER, idle

PAGE = (Path(__file__).resolve().parents[3] / "docs/diagnosis.md").read_text()
GIB = 1 << 30

WAITS = idle(0.3)
"""It computes for a third of the time: low GPU."""
FULL_THREAD = replace(CALM, hottest_thread=1.0, cpu_of_limit=0.99)
BLOCKED = replace(CALM, io_pressure=0.9, blocked_threads=1.0)

OwnerRows = Mapping[str, float]


def _job(
    *gpus: Signals,
    host: HostSignals = CALM,
    work: str = "",
    gpu: int = 0,
    processes: Mapping[int, ProcessSignals] | None = None,
) -> OwnerRows:
    """Of a hundred seconds of a job that has computed before."""
    warm = run([[HOPPER] * len(gpus)] * 3, work=work)
    return shares(run([gpus] * 100, host=host, work=work, processes=processes, ledger=warm), gpu, since=warm)


def _allocated(pids: tuple[int, ...] | None, signals: Signals | None = NOTHING) -> OwnerRows:
    """Of a GPU with an allocation and these processes; None: nobody's."""
    allocations = () if pids is None else (Allocation(JOB, 1.0, pids),)
    ledger, reading = Ledger(), Reading(Target("GPU-0", 0, ""), signals, allocations)
    for _ in range(100):
        ledger = advance_ledger(ledger, LedgerInput(time=0.0, seconds=1.0, readings=(reading,)))
    return shares(ledger)


SMALL = replace(HOPPER, sm_active=0.14, tensor_active=0.02, dram_active=0.06, link_activity=0.01)
SITUATIONS: Mapping[str, Callable[[], OwnerRows]] = {
    "wait_cpu": lambda: _job(WAITS, host=FULL_THREAD),
    "wait_storage": lambda: _job(WAITS, host=BLOCKED),
    "wait_network": lambda: _job(WAITS, processes={100: RECEIVES}),
    "wait_peer": lambda: _job(HOPPER, NOTHING, gpu=1),
    "wait_requests": lambda: _job(WAITS, work="service"),
    "wait_user": lambda: _job(WAITS, work="interactive"),
    "wait_other": lambda: _job(WAITS, processes={100: SLEEPS}),
    "wait_collective": lambda: _job(SPINS, SPINS),
    "allocated_unused": lambda: shares(run([[HOPPER, NOTHING]] * 100), 1),
    "allocated_idle": lambda: _allocated(()),
    "free": lambda: _allocated(None),
    "unobserved": lambda: _allocated((100,), None),
    "low_sm_activity": lambda: _job(SMALL),
    "communication": lambda: _job(replace(SMALL, link_activity=0.6)),
    "memory_bound": lambda: _job(replace(HOPPER, sm_active=0.8, tensor_active=0.04, dram_active=0.86)),
    "tensor_cores_unused": lambda: _job(replace(HOPPER, sm_active=0.95, tensor_active=0.0, vector_active=0.6)),
    "computing": lambda: _job(HOPPER),
}

WORDS: Mapping[str, Sequence[str]] = {
    "low GPU, high CPU": ("more loader workers and CPUs", "on the GPU (DALI)"),
    "low GPU, free host memory": ("more loader workers", "prefetch", "Cache the data"),
    "low GPU, free GPU memory": ("Enlarge the batch where GPU memory has room",),
    "many copies between host and device": ("pinned memory", "overlap"),
    "full GPU, full memory": ("the batch cannot grow", "shard over more GPUs"),
    "memory management": ("GPU memory is full",),
    "architecture and hyperparameters": ("mixed precision", "Enlarge the batch"),
    "data loading": ("loader workers", "pack small files", "Fetch data ahead"),
    "too little parallelism": ("Enlarge the batch", "start a rank on each"),
    "communication": ("gradient accumulation", "the rank that lags", "Balance"),
    "allocation and scheduling": ("pending work", "Release it", "Scale down", "Cull"),
}


def _rows() -> list[tuple[str, tuple[str, ...]]]:
    section = PAGE.partition("## From what you see to what to do")[2].partition("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if "`" in line]
    return [(row[0], tuple(re.findall(r"`(\w+)`", row[1]))) for row in cells]


ROWS = _rows()


def test_the_tables_have_their_rows() -> None:
    assert len(ROWS) == 6 + 7
    assert set(WORDS) <= {name for name, _ in ROWS}


@pytest.mark.parametrize(("row", "states"), ROWS, ids=[name for name, _ in ROWS])
def test_what_a_row_shows_is_booked_and_advised_as_it_says(row: str, states: tuple[str, ...]) -> None:
    assert states
    for state in states:
        assert SITUATIONS[state]().get(state, 0.0) >= 0.5, state
    advice = " ".join(f"{BY_STATE[state].advice} {BY_STATE[state].advice_when_full}" for state in states)
    assert [word for word in WORDS.get(row, ()) if word not in advice] == []


@pytest.mark.parametrize(("peak", "said"), [(40.0, "Enlarge the batch where GPU memory has room"),
                                            (78.0, "GPU memory is full, so the batch cannot grow")])  # fmt: skip
def test_the_row_about_full_memory_is_told_by_the_memory(peak: float, said: str) -> None:
    hours = {"low_sm_activity": 1.0}
    device = DeviceUse("n1", "0", "GPU-0", "NVIDIA H100", 1.0, hours, peak * GIB, 80.0 * GIB)

    assert of_job(hours, [device])[0].text.startswith(said)
