"""What is shown of a GPU that missed a deadline: all it had, until that is stale."""

from __future__ import annotations

import pytest

from exporter.collectors import COLLECTORS
from exporter.core.clock import NEVER, MonotonicTime, UnixTime
from exporter.driver.interface import DriverError
from exporter.sampling.accounting import Accounting, AccountingOptions
from exporter.sampling.gpus import LATE, SICK, Gpu, Gpus
from exporter.sampling.host_view import Host
from exporter.sampling.sampler import Moment, Pacing, Sampler
from exporter.sampling.snapshot import Snapshot
from exporter.tools.simulator import simulate
from tests.attribution_kit.nodes import until
from tests.unit.sampling.scripted import Scripted, answers, collector

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

    assert "gpu_memory_used_bytes" in before
    assert before - late == set()
    assert {"gpu_memory_used_bytes", "gpu_power_watts"} <= before - stale
    sampler.stop()


TELEMETRY = ("utilization", "power", "clocks", "temperature")


@pytest.mark.parametrize(("failing", "up"), [(1, True), (2, True), (3, False), (4, False)])
def test_gpu_that_fails_in_most_of_its_telemetry_is_not_up(failing: int, *, up: bool) -> None:
    """Its handle and its fields still work, as on a card whose firmware has stopped (XID 119)."""
    well = dict.fromkeys((*TELEMETRY, "fields"), 1.0)
    sick = well | dict.fromkeys(TELEMETRY[:failing], DriverError("no", "UNKNOWN"))
    gpus = Gpus([*map(collector, TELEMETRY), collector("fields")])
    for second in range(40):
        device = Scripted(0, answers(**(well if second < 20 else sick)))
        gpus.read([device], UnixTime(0.0), 1e9, MonotonicTime(float(second)))
    gpus.stop()
    (gpu,) = gpus.all

    assert gpu.answers(MonotonicTime(40.0), STALE) is up
    assert gpu.failure == ("" if up else SICK)
