"""A GPU of which nobody tells who runs on it: some guests' drivers do not, and the collector can be switched off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest

from exporter.attribution.owner import Owner, Ownership
from exporter.collectors import COLLECTORS
from exporter.collectors.base import AnyCollector
from exporter.core.clock import Moment, MonotonicTime, UnixTime
from exporter.core.families import Sample
from exporter.sampling.accounting import Accounting, AccountingOptions
from exporter.sampling.host_view import Host, HostQuestion, HostView
from exporter.sampling.sampler import Pacing, Sampler
from exporter.tools.simulator import simulate
from tests.attribution_kit.nodes import until

JOB = Owner("slurm:7", "slurm")


class Held(Host):
    """One job was given every GPU."""

    def view(self, question: HostQuestion) -> HostView:
        return HostView(ownership=Ownership(holders={target.uuid: (JOB,) for target in question.targets}))


def _after_passes(collectors: Iterable[AnyCollector]) -> Mapping[str, Sequence[Sample]]:
    """The samples of each family after ten seconds of no work."""
    now = 1_700_000_000.0
    driver = simulate("1xH200:idle-held", lambda: now)
    accounting = Accounting(AccountingOptions(), ())
    sampler = Sampler(driver, Held(), tuple(collectors), Pacing(1.0, 30.0, 10.0), accounting)
    sampler.start()
    until(lambda: sampler.connection.state.devices)
    for second in range(10):
        now += 1.0
        found = sampler.run_cycle(Moment(UnixTime(now), MonotonicTime(100.0 + second)))
    sampler.stop()
    return {block.family.name: block.samples for block in found.blocks}


@pytest.mark.parametrize("told", [True, False])
def test_neither_its_memory_is_leaked_nor_is_it_held_idle(*, told: bool) -> None:
    shown = _after_passes(each for each in COLLECTORS if told or each.name != "processes")
    idle = sum(sample.value for sample in shown["gpu_state_seconds_total"] if "allocated_idle" in sample.labels)

    assert bool(shown.get("gpu_memory_unattributed_bytes")) == told
    assert (idle > 0) == told
