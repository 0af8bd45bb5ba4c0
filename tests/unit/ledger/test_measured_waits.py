"""Ranks with the readings of an H100 that waits in NCCL 2.28's all-reduce: see docs/dev/hardware.md."""

from __future__ import annotations

import pytest

from exporter.attribution.owner import Target
from exporter.core.clock import UnixTime
from exporter.host.model import HostSignals, ProcessSignals
from exporter.ledger.account import Allocation, Ledger, LedgerInput, Reading
from exporter.ledger.hangs import Spin, spin_of
from exporter.ledger.ledger import advance_ledger
from exporter.ledger.states import DEFAULTS, STATES
from exporter.ledger.states.state import RankActivity, Signals
from tests.unit.ledger.synchronous_job import JOB

_IDLE_POWER, _LIMIT = 75.0, 700.0
MEASURED = {
    # percent: fraction in the collective, busy, SM, tensor, DRAM, watts
    25: (0.237, 0.9935, 0.6733, 0.6392, 0.2110, 618.9),
    50: (0.487, 0.9937, 0.4265, 0.4023, 0.1462, 477.4),
    75: (0.735, 0.9935, 0.2037, 0.1884, 0.0743, 309.6),
}
SPINS = {1: (0.0076, 134.0), 16: (0.1210, 127.6)}
"""SM activity and watts in the collective, by NCCL's channels."""


def _signals(busy: float, sm: float, tensor: float, dram: float, watts: float) -> Signals:
    return Signals(
        busy=busy, sm_active=sm, tensor_active=tensor, vector_active=0.0, dram_active=dram, link_activity=0.01,
        power_of_limit=watts / _LIMIT,
    )  # fmt: skip


@pytest.mark.parametrize("percent", MEASURED)
def test_rank_that_waits_is_told_from_the_late_one_by_measured_activity(percent: int) -> None:
    """The late rank does the same work, and is idle while the other waits."""
    wait, busy, sm, tensor, dram, watts = MEASURED[percent]
    spin_sm, spin_watts = SPINS[1]
    late = _signals(busy - wait, sm - wait * spin_sm, tensor, dram, watts - wait * (spin_watts - _IDLE_POWER))
    both = (late, _signals(busy, sm, tensor, dram, watts))
    readings = tuple(
        Reading(Target(f"GPU-{rank}", rank, ""), each, (Allocation(JOB, pids=(100 + rank,)),))
        for rank, each in enumerate(both)
    )
    host = HostSignals(
        processes={100: ProcessSignals(0.05, 1.0), 101: ProcessSignals(0.05, 0.0)}, launchers={100: 50, 101: 50}
    )
    ledger, begin = Ledger(), Ledger()
    for cycle in range(180):
        ledger = advance_ledger(
            ledger, LedgerInput(time=UnixTime(cycle), seconds=1.0, readings=readings, hosts={JOB: host})
        )
        begin = ledger if cycle < 60 else begin

    named = STATES.index("wait_collective")
    seconds = [
        ledger.targets[f"GPU-{rank}"].seconds[named] - begin.targets[f"GPU-{rank}"].seconds[named] for rank in (0, 1)
    ]
    straggling = [ledger.owners[JOB].past[f"GPU-{rank}"].straggling_seconds for rank in (0, 1)]
    assert seconds[0] == 0.0
    assert seconds[1] / 120 == pytest.approx(wait, abs=0.03)
    assert straggling[0] > 0.0
    assert straggling[1] == 0.0


@pytest.mark.parametrize("channels", SPINS)
def test_measured_spin_is_one_whatever_the_rank_did_before(channels: int) -> None:
    sm, watts = SPINS[channels]
    now = {"busy": 0.995, "sm_active": sm, "tensor_active": 0.0, "vector_active": 0.0, "dram_active": 0.0,
           "power_of_limit": watts / _LIMIT, "link_activity": 0.01}  # fmt: skip

    assert spin_of(now, RankActivity(), DEFAULTS) is Spin.YES


def test_measured_work_is_no_spin() -> None:
    _, busy, sm, tensor, dram, watts = MEASURED[75]
    now = {"busy": busy, "sm_active": sm, "tensor_active": tensor, "vector_active": 0.0, "dram_active": dram,
           "power_of_limit": watts / _LIMIT, "link_activity": 0.01}  # fmt: skip

    assert spin_of(now, RankActivity(), DEFAULTS) is Spin.NO
