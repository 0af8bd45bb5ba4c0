"""What is shown of a GPU that missed a deadline: all it had, until that is stale."""

from __future__ import annotations

import pytest

from exporter.collectors import COLLECTORS
from exporter.core.clock import NEVER
from exporter.sampling.accounting import Accounting, AccountingOptions
from exporter.sampling.gpus import LATE, Gpu
from exporter.sampling.host_view import Host
from exporter.sampling.sampler import Moment, Pacing, Sampler
from exporter.sampling.snapshot import Snapshot
from exporter.tools.simulator import simulate
from tests.attribution_kit.nodes import until

STALE = 10.0


def shown(snapshot: Snapshot) -> set[str]:
    return {block.family.name for block in snapshot.blocks if block.samples}


@pytest.mark.parametrize(
    ("failure", "present", "answered", "answers"),
    [
        ("", True, 100.0, True),
        (LATE, True, 100.0, True),
        (LATE, True, 99.9, False),
        ("GPU_IS_LOST", True, 110.0, False),
        ("", False, 110.0, False),
        ("", True, NEVER, False),
        (LATE, True, NEVER, False),
    ],
)
def test_only_a_late_gpu_counts_as_answering_for_a_while(
    failure: str, answered: float, *, present: bool, answers: bool
) -> None:
    device = simulate("1xH200:training").devices()[0]
    gpu = Gpu(device, present=present, answered=answered, failure=failure)

    assert gpu.answers(110.0, STALE) == answers


def test_every_gauge_of_a_late_gpu_stays_until_it_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_700_000_000.0
    driver = simulate("1xH200:training", lambda: now)
    sampler = Sampler(driver, Host(), COLLECTORS, Pacing(1.0, 30.0, STALE), Accounting(AccountingOptions(), ()))
    sampler.start()
    until(lambda: sampler.connection.state.devices)
    before = shown(sampler.run_cycle(Moment(now, 100.0)))
    monkeypatch.setattr(sampler._gpus.threads, "read", lambda tasks, *_: dict.fromkeys(tasks))

    late, stale = (shown(sampler.run_cycle(Moment(now + age, 100.0 + age))) for age in (1.0, STALE + 1.0))

    assert "gpu_memory_unattributed_bytes" in before
    assert before - late == set()
    assert {"gpu_memory_unattributed_bytes", "gpu_power_watts"} <= before - stale
    sampler.stop()
